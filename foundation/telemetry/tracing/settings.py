"""Settings of tracing: `config.options.Options` has them all."""

from decimal import Decimal
from typing import Protocol

from foundation.values import HostPort, Url

# What back-ends are called elsewhere -> the specification's word.
SAME_AS = {"datadog": "monitor", "jaeger": "thrift", "zipkin": "span"}


class TracerSettings(Protocol):
    """Values of the configuration: which back-end is sent spans, where it is, and of what part of the requests (0 to 1)."""

    @property
    def service_label(self) -> str: ...
    @property
    def certificate_authority(self) -> bytes | None: ...
    @property
    def tracing_provider(self) -> str | None: ...
    @property
    def tracing_sample_rate(self) -> Decimal: ...
    @property
    def tracing_monitor_address(self) -> HostPort: ...
    @property
    def tracing_thrift_collector_endpoint(self) -> Url | None: ...
    @property
    def tracing_thrift_agent_endpoint(self) -> HostPort | None: ...
    @property
    def tracing_span_endpoint(self) -> Url | None: ...
