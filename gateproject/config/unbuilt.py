"""Keys of the specification that this release does not have yet, declared as they will be.

Naming one is an error: ignoring `autocert`, say, would leave the operator believing in what does not happen.  Whoever builds a key
moves its field from here to its group.
"""

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from gateproject.config.fields import (
    AnyUrl,
    Bool,
    FilePath,
    Number,
    Text,
)
from gateproject.config.reader import one_of
from gateproject.config.validation import Settings


class UnbuiltSettings(Settings):
    autocert: Bool = Field(False, description="Gets and renews certificates from a public authority (ACME).", examples=[True])
    autocert_dir: FilePath | None = Field(
        None,
        description="Where certificates are kept, shared between services.",
        examples=["/data/autocert"],
        json_schema_extra={"when_unset": "`$XDG_DATA_HOME/gate`, else `~/.local/share/gate`"},
    )
    autocert_must_staple: Bool = Field(False, description="Asks for certificates with the Must-Staple extension.", examples=[True])
    autocert_use_staging: Bool = Field(False, description="Uses the authority's staging environment.", examples=[True])
    data_plane: Annotated[str, one_of("embedded", "envoy")] = Field(
        "embedded", description="Who carries proxied traffic: this process, or an Envoy child.", examples=["envoy"]
    )
    tracing_monitor_address: Text = Field("localhost:8126", description="host:port of the monitoring agent.", examples=["localhost:8126"])
    tracing_provider: Annotated[str, one_of("monitor", "thrift", "span", "datadog", "jaeger", "zipkin", "otlp")] | None = Field(
        None, description="Where traces are sent.", examples=["span"]
    )
    tracing_sample_rate: Number = Field(Decimal("0.0001"), description="The part of requests that is traced.", examples=[0.01])
    tracing_span_endpoint: AnyUrl | None = Field(
        None, description="URL of the HTTP span endpoint.", examples=["http://localhost:9411/api/v2/spans"]
    )
    tracing_thrift_agent_endpoint: Text | None = Field(
        None, description="host:port of the agent that receives spans.", examples=["localhost:6831"]
    )
    tracing_thrift_collector_endpoint: AnyUrl | None = Field(
        None, description="URL of the HTTP Thrift collector.", examples=["http://localhost:14268/api/traces"]
    )


SETTINGS = tuple(UnbuiltSettings.attributes())
