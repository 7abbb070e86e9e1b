"""Settings of tracing: backend, its address, and sample rate."""

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from config.fields.basic_types import Number, WebUrl, host_port
from config.fields.field_type import HOST_PORT, FieldType, choice_type
from config.validation import Finding, Rule, Settings
from foundation.telemetry.tracing.tracer import PROVIDER_ALIASES
from foundation.values import HostPort

if TYPE_CHECKING:
    from config.options import Options


def _agent(value: Any) -> HostPort:
    """Parse the address of an agent, which needs a host and a port, unlike a listening address."""
    address = host_port(value)
    if not address.host or not address.port:
        raise ValueError("must be host:port, as in localhost:6831")
    return address


Agent = Annotated[HostPort, FieldType("string", _agent, HOST_PORT)]


def _check_endpoint(settings: "Options") -> Iterator[Finding]:
    provider = settings.tracing_provider or ""
    back_end = PROVIDER_ALIASES.get(provider, provider)
    if back_end == "thrift" and not (settings.tracing_thrift_collector_endpoint or settings.tracing_thrift_agent_endpoint):
        yield ("tracing_provider",), f"{provider} needs tracing_thrift_collector_endpoint or tracing_thrift_agent_endpoint"
    if back_end in ("span", "otlp") and not settings.tracing_span_endpoint:
        example = "http://localhost:9411/api/v2/spans" if back_end == "span" else "http://localhost:4318/v1/traces"
        yield ("tracing_provider",), f"{provider} needs tracing_span_endpoint, as in {example}"


def _check_sample_rate(settings: "Options") -> Iterator[Finding]:
    if settings.tracing_sample_rate > 1:
        yield ("tracing_sample_rate",), "must not be more than 1, which traces every request"


class TracingSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_endpoint, _check_sample_rate)

    tracing_provider: Annotated[str, choice_type("monitor", "thrift", "span", "datadog", "jaeger", "zipkin", "otlp")] | None = Field(
        None,
        description="Tracing backend. `zipkin` is `span`, `jaeger` is `thrift`, `datadog` is `monitor`. Empty disables tracing.",
        examples=["span"],
    )
    tracing_sample_rate: Number = Field(Decimal("0.0001"), description="Fraction of requests that are traced.", examples=[0.01])
    tracing_monitor_address: Agent = Field(
        HostPort("localhost", 8126), description="Address of the `monitor` agent.", examples=["localhost:8126"]
    )
    tracing_thrift_collector_endpoint: WebUrl | None = Field(
        None,
        description="URL of the `thrift` collector (Thrift over HTTP), in place of the agent.",
        examples=["http://localhost:14268/api/traces"],
    )
    tracing_thrift_agent_endpoint: Agent | None = Field(
        None, description="Address of the `thrift` agent (compact Thrift over UDP).", examples=["localhost:6831"]
    )
    tracing_span_endpoint: WebUrl | None = Field(
        None,
        description="URL of the `span` endpoint (JSON) or of the `otlp` endpoint (OTLP over HTTP).",
        examples=["http://localhost:9411/api/v2/spans"],
    )
