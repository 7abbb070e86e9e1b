"""Upstream health: settings of active health checks and of outlier detection."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from config.fields.basic_types import Duration, PositiveDuration, Text, text
from config.fields.field_type import TEXT, FieldType, integer_type
from config.routes.rewrites import HostValue
from config.routes.route_values import RewrittenPath
from config.validation import Finding, Rule, Settings

if TYPE_CHECKING:
    from config.routes.route import Route

EXAMPLE_CHECK = {
    "timeout": "5s",
    "interval": "30s",
    "unhealthy_threshold": 3,
    "healthy_threshold": 1,
    "http_health_check": {"path": "/healthz"},
}
CHECKERS = ("http_health_check", "tcp_health_check", "grpc_health_check")
_CODES = integer_type(100, 600)
_COUNT = integer_type(1, 1_000_000)
_PERCENT = integer_type(0, 100)


def hexadecimal(value: Any) -> bytes:
    try:
        return bytes.fromhex(text(value))
    except (TypeError, ValueError):
        raise ValueError("must be bytes in hexadecimal, as in 50494E47") from None


def _check_status_range(settings: "StatusRange") -> Iterator[Finding]:
    if settings.start >= settings.end:
        yield ("end",), "must be more than start: it is exclusive"


def _check_single_checker(settings: "HealthCheck") -> Iterator[Finding]:
    chosen = [key for key in CHECKERS if getattr(settings, key) is not None]
    if len(chosen) != 1:
        yield (), f"needs one of {', '.join(CHECKERS)}, and has {len(chosen)}"


class StatusRange(Settings):
    """Status codes from `start` to below `end`."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_status_range,)

    start: Annotated[int, _CODES] = Field(description="First status code of the range.", examples=[200])
    end: Annotated[int, _CODES] = Field(description="End of the range, exclusive.", examples=[300])


class HttpHealthCheck(Settings):
    """An HTTP GET request."""

    path: RewrittenPath = Field(description="Path of the request.", examples=["/healthz"])
    host: HostValue | None = Field(
        None,
        description="`Host` header of the request.",
        examples=["app.internal"],
        json_schema_extra={"when_unset": "the upstream's host"},
    )
    expected_statuses: tuple[StatusRange, ...] = Field(
        (),
        description="Ranges of status codes that count as healthy; 503 never does.",
        examples=[[{"start": 200, "end": 300}]],
        json_schema_extra={"when_unset": "200"},
    )


class TcpPayload(Settings):
    """Bytes to send or to expect."""

    text: Annotated[bytes, FieldType("hexadecimal", hexadecimal, TEXT)] = Field(description="Bytes in hexadecimal.", examples=["50494E47"])


class TcpHealthCheck(Settings):
    """A TCP connection, with optional bytes to send and to expect."""

    send: TcpPayload | None = Field(None, description="Bytes to send.", examples=[{"text": "50494E47"}])
    receive: tuple[TcpPayload, ...] = Field(
        (), description="Byte sequences that the response must contain in this order.", examples=[[{"text": "504F4E47"}]]
    )


class GrpcHealthCheck(Settings):
    """The gRPC health service (grpc.health.v1) over HTTP/2: by prior knowledge to `http` upstreams, by ALPN to `https` ones."""

    service_name: Text = Field("", description="Service name in the request. Empty checks the whole server.", examples=["shop.Orders"])
    authority: HostValue | None = Field(
        None,
        description="`:authority` of the request.",
        examples=["orders.internal"],
        json_schema_extra={"when_unset": "the upstream's host"},
    )


class HealthCheck(Settings):
    """Periodic health check of an upstream."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_single_checker,)

    timeout: PositiveDuration = Field(description="Maximum time for one check.", examples=["5s"])
    interval: PositiveDuration = Field(description="Time between two checks.", examples=["30s"])
    unhealthy_threshold: Annotated[int, _COUNT] = Field(
        description="Consecutive failures that mark the upstream unhealthy. One is enough for the first check, and for a 503 or "
        "NOT_SERVING response.",
        examples=[3],
    )
    healthy_threshold: Annotated[int, _COUNT] = Field(
        description="Consecutive successes that mark the upstream healthy again.", examples=[2]
    )
    initial_jitter: Duration = Field(timedelta(0), description="Maximum random delay of the first check.", examples=["1s"])
    interval_jitter: Duration = Field(timedelta(0), description="Maximum random delay added to each interval.", examples=["1s"])
    interval_jitter_percent: Annotated[int, integer_type(0, 1000)] = Field(
        10, description="The same, as a percentage of each interval.", examples=[10]
    )
    unhealthy_interval: PositiveDuration | None = Field(
        None,
        description="Time between two checks of an unhealthy upstream.",
        examples=["5s"],
        json_schema_extra={"when_unset": "`interval`"},
    )
    http_health_check: HttpHealthCheck | None = Field(None, description="Checks with an HTTP GET request.", examples=[{"path": "/healthz"}])
    tcp_health_check: TcpHealthCheck | None = Field(None, description="Checks with a TCP connection.", examples=[{}])
    grpc_health_check: GrpcHealthCheck | None = Field(
        None, description="Checks with the gRPC health service.", examples=[{"service_name": "shop.Orders"}]
    )


class OutlierDetection(Settings):
    """Ejects an upstream that fails requests, for a time that grows by `base_ejection_time` with each ejection."""

    consecutive_5xx: Annotated[int, _COUNT] = Field(
        5,
        description="Consecutive responses with status 500 or above that eject an upstream, failed connections and timeouts included.",
        examples=[5],
    )
    enforcing_consecutive_5xx: Annotated[int, _PERCENT] = Field(
        100, description="Percentage of these ejections to enforce.", examples=[100]
    )
    consecutive_gateway_failure: Annotated[int, _COUNT] = Field(
        5, description="Consecutive 502, 503 and 504 responses that eject an upstream.", examples=[5]
    )
    enforcing_consecutive_gateway_failure: Annotated[int, _PERCENT] = Field(
        0, description="Percentage of these ejections to enforce.", examples=[100]
    )
    interval: PositiveDuration = Field(
        timedelta(seconds=10), description="Time between two evaluations of success rates.", examples=["10s"]
    )
    base_ejection_time: PositiveDuration = Field(
        timedelta(seconds=30),
        description="Duration of the first ejection; each further one is longer by as much.",
        examples=["30s"],
    )
    max_ejection_time: PositiveDuration = Field(timedelta(minutes=5), description="Maximum duration of an ejection.", examples=["5m"])
    max_ejection_percent: Annotated[int, _PERCENT] = Field(
        10, description="Maximum percentage of ejected upstreams. One may always be ejected.", examples=[50]
    )
    enforcing_success_rate: Annotated[int, _PERCENT] = Field(
        100, description="Percentage of success rate ejections to enforce.", examples=[100]
    )
    success_rate_minimum_hosts: Annotated[int, _COUNT] = Field(
        5, description="Minimum number of upstreams with enough requests to compare success rates.", examples=[5]
    )
    success_rate_request_volume: Annotated[int, _COUNT] = Field(
        100, description="Minimum number of requests per interval that count.", examples=[100]
    )
    success_rate_stdev_factor: Annotated[int, integer_type(0, 1_000_000)] = Field(
        1900,
        description="Standard deviations, in thousandths, below the mean success rate that eject an upstream.",
        examples=[1900],
    )
    enforcing_failure_percentage: Annotated[int, _PERCENT] = Field(
        0, description="Percentage of failure percentage ejections to enforce.", examples=[100]
    )
    failure_percentage_threshold: Annotated[int, _PERCENT] = Field(
        85, description="Percentage of failed requests that ejects an upstream.", examples=[85]
    )
    failure_percentage_minimum_hosts: Annotated[int, _COUNT] = Field(5, description="As `success_rate_minimum_hosts`.", examples=[5])
    failure_percentage_request_volume: Annotated[int, _COUNT] = Field(50, description="As `success_rate_request_volume`.", examples=[50])


def check_health_upstreams(route: "Route") -> Iterator[Finding]:
    for key in ("health_checks", "outlier_detection"):
        if getattr(route, key) and not route.to:
            yield (key,), "is for upstreams: the route needs `to`"
