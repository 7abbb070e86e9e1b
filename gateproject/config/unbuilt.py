"""Keys of the specification that this release does not have yet, declared as they will be.

Naming one is an error: ignoring `health_checks`, say, would leave the operator believing in what does not happen.  Whoever builds a key
moves its field from here to its group or to Route; values of existing keys wait at their declaration, in `later=` of `one_of`.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from gateproject.config.fields import (
    Address,
    AnyUrl,
    Base64,
    Base64Secret,
    Bool,
    File,
    FilePath,
    Number,
    PositiveDuration,
    Secret,
    Text,
)
from gateproject.config.reader import Reader, one_of
from gateproject.config.validation import Settings

Map = Annotated[dict[str, Any], Reader("object", dict, {"type": "object"})]
MapList = Annotated[tuple[dict[str, Any], ...], Reader("array of objects", tuple, {"type": "array", "items": {"type": "object"}})]


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
    dns_lookup_family: Annotated[str, one_of("AUTO", "V4_ONLY", "V6_ONLY")] = Field(
        "AUTO", description="Which addresses of an upstream's name are used.", examples=["V4_ONLY"]
    )
    http_redirect_addr: Address | None = Field(None, description="Where http is answered with a redirect to https.", examples=[":80"])
    idp_refresh_directory_timeout: PositiveDuration = Field(
        timedelta(minutes=1), description="How long one reading may take.", examples=["1m"]
    )
    idp_service_account: Secret | None = Field(
        None, description="Credentials for reading the provider's directory: groups.", examples=["BASE64-OF-account.json"]
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
    use_proxy_protocol: Bool = Field(False, description="Incoming connections must begin with the PROXY protocol.", examples=[True])


class UnbuiltRouteKeys(Settings):
    allow_spdy: Bool = Field(False, description="Allows SPDY upgrades.", examples=[True])
    health_checks: MapList = Field(
        (),
        description="Periodic checks; an unhealthy upstream gets no traffic.",
        examples=[[{"timeout": "5s", "interval": "30s", "http_health_check": {"path": "/healthz"}}]],
    )
    outlier_detection: Map | None = Field(
        None, description="Takes a misbehaving upstream out of the healthy ones.", examples=[{"consecutive_5xx": 5}]
    )
    tls_client_cert: Base64 | None = Field(None, description="Certificate that the upstream is shown.", examples=["BASE64-OF-client.pem"])
    tls_client_cert_file: File | None = Field(None, description="File form of `tls_client_cert`.", examples=["client.pem"])
    tls_client_key: Base64Secret | None = Field(None, description="Its private key.", examples=["BASE64-OF-client-key.pem"])
    tls_client_key_file: File | None = Field(None, description="File form of `tls_client_key`.", examples=["client-key.pem"])


SETTINGS = tuple(UnbuiltSettings.attributes())
ROUTE_KEYS = tuple(UnbuiltRouteKeys.attributes())
