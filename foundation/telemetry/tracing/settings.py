"""Settings of tracing: `config.options.Options` has them all."""

from decimal import Decimal
from typing import Protocol

from foundation.values import HostPort, Url

# What back-ends are called elsewhere -> the specification's word.
SAME_AS = {"datadog": "monitor", "jaeger": "thrift", "zipkin": "span"}


class TracerSettings(Protocol):
    """Values of the configuration: which back-end is sent spans, where it is, and of what part of the requests (0 to 1)."""

    certificate_authority: bytes | None
    tracing_provider: str | None
    tracing_sample_rate: Decimal
    tracing_monitor_address: HostPort
    tracing_thrift_collector_endpoint: Url | None
    tracing_thrift_agent_endpoint: HostPort | None
    tracing_span_endpoint: Url | None

    @property
    def service_label(self) -> str: ...
