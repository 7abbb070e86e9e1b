"""Upstream health: the settings of health checks that gate makes by itself, and of outlier detection by what requests show."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field

from config.routes.rewrites import WrittenHost
from config.routes.values import RewrittenPath
from config.types.fields import Duration, PositiveDuration, Text, text
from config.types.reader import TEXT, SettingReader, whole_number
from config.validation import Finding, Rule, Settings

EXAMPLE_CHECK = {
    "timeout": "5s",
    "interval": "30s",
    "unhealthy_threshold": 3,
    "healthy_threshold": 1,
    "http_health_check": {"path": "/healthz"},
}
CHECKERS = ("http_health_check", "tcp_health_check", "grpc_health_check")
_CODES = whole_number(100, 600)
_COUNT = whole_number(1, 1_000_000)
_PERCENT = whole_number(0, 100)


def hexadecimal(value: Any) -> bytes:
    try:
        return bytes.fromhex(text(value))
    except (TypeError, ValueError):
        raise ValueError("must be bytes in hexadecimal, as in 50494E47") from None


def _is_no_empty_range(settings: Any) -> Iterator[Finding]:
    if settings.start >= settings.end:
        yield ("end",), "must be more than start: it is not part of the range itself"


def _has_one_checker(settings: Any) -> Iterator[Finding]:
    chosen = [key for key in CHECKERS if getattr(settings, key) is not None]
    if len(chosen) != 1:
        yield (), f"needs one of {', '.join(CHECKERS)}, and has {len(chosen)}"


class StatusRange(Settings):
    """Statuses from `start` to below `end`."""

    RULES: ClassVar[tuple[Rule, ...]] = (_is_no_empty_range,)

    start: Annotated[int, _CODES] = Field(description="The first status that counts.", examples=[200])
    end: Annotated[int, _CODES] = Field(description="The first one that counts no more.", examples=[300])


class HttpHealthCheck(Settings):
    """A GET request."""

    path: RewrittenPath = Field(description="What is asked for.", examples=["/healthz"])
    host: WrittenHost | None = Field(
        None,
        description="The Host that is sent.",
        examples=["app.internal"],
        json_schema_extra={"when_unset": "the upstream's own name or address"},
    )
    expected_statuses: tuple[StatusRange, ...] = Field(
        (),
        description="The statuses of a healthy upstream; 503 is never one.",
        examples=[[{"start": 200, "end": 300}]],
        json_schema_extra={"when_unset": "200 alone"},
    )


class TcpPayload(Settings):
    """Bytes to send or to expect."""

    text: Annotated[bytes, SettingReader("hexadecimal", hexadecimal, TEXT)] = Field(description="In hexadecimal.", examples=["50494E47"])


class TcpHealthCheck(Settings):
    """A connection, and perhaps a few bytes each way."""

    send: TcpPayload | None = Field(None, description="What is sent; nothing, unless it is set.", examples=[{"text": "50494E47"}])
    receive: tuple[TcpPayload, ...] = Field(
        (), description="What must come back, in this order, other bytes between them allowed.", examples=[[{"text": "504F4E47"}]]
    )


class GrpcHealthCheck(Settings):
    """The health service of gRPC (grpc.health.v1), over HTTP/2: to `http` upstreams by prior knowledge, to `https` ones by ALPN."""

    service_name: Text = Field("", description="The service asked about; unset, the server as a whole.", examples=["shop.Orders"])
    authority: WrittenHost | None = Field(
        None,
        description="The authority that is sent.",
        examples=["orders.internal"],
        json_schema_extra={"when_unset": "the upstream's own name or address"},
    )


class HealthCheck(Settings):
    """Asks an upstream again and again how it is."""

    RULES: ClassVar[tuple[Rule, ...]] = (_has_one_checker,)

    timeout: PositiveDuration = Field(description="An answer that takes longer is a failure.", examples=["5s"])
    interval: PositiveDuration = Field(description="The time between two checks.", examples=["30s"])
    unhealthy_threshold: Annotated[int, _COUNT] = Field(
        description="So many failures in a row make it unhealthy; the first check needs one, and a 503 or NOT_SERVING is enough.",
        examples=[3],
    )
    healthy_threshold: Annotated[int, _COUNT] = Field(description="So many successes in a row make it healthy again.", examples=[2])
    initial_jitter: Duration = Field(timedelta(0), description="The first check waits a part of this, at random.", examples=["1s"])
    interval_jitter: Duration = Field(timedelta(0), description="So does each other one, beyond its interval.", examples=["1s"])
    interval_jitter_percent: Annotated[int, whole_number(0, 1000)] = Field(
        10, description="Likewise, as a part of the interval.", examples=[10]
    )
    unhealthy_interval: PositiveDuration | None = Field(
        None,
        description="The time between two checks while the upstream is unhealthy.",
        examples=["5s"],
        json_schema_extra={"when_unset": "`interval`"},
    )
    http_health_check: HttpHealthCheck | None = Field(None, description="Asks by HTTP.", examples=[{"path": "/healthz"}])
    tcp_health_check: TcpHealthCheck | None = Field(None, description="Connects.", examples=[{}])
    grpc_health_check: GrpcHealthCheck | None = Field(None, description="Asks by gRPC.", examples=[{"service_name": "shop.Orders"}])


class OutlierDetection(Settings):
    """Takes an upstream that answers badly out for a while, `base_ejection_time` longer each time."""

    consecutive_5xx: Annotated[int, _COUNT] = Field(
        5, description="So many answers of 500 and above in a row; no connection and no answer in time are some.", examples=[5]
    )
    enforcing_consecutive_5xx: Annotated[int, _PERCENT] = Field(
        100, description="How often, in percent, that has consequences.", examples=[100]
    )
    consecutive_gateway_failure: Annotated[int, _COUNT] = Field(5, description="So many of 502, 503 and 504 in a row.", examples=[5])
    enforcing_consecutive_gateway_failure: Annotated[int, _PERCENT] = Field(
        0, description="How often, in percent, that has consequences.", examples=[100]
    )
    interval: PositiveDuration = Field(timedelta(seconds=10), description="How often success rates are looked at.", examples=["10s"])
    base_ejection_time: PositiveDuration = Field(timedelta(seconds=30), description="How long the first time.", examples=["30s"])
    max_ejection_time: PositiveDuration = Field(timedelta(minutes=5), description="How long at most.", examples=["5m"])
    max_ejection_percent: Annotated[int, _PERCENT] = Field(
        10, description="The part of the upstreams that may be out at once; one always may.", examples=[50]
    )
    enforcing_success_rate: Annotated[int, _PERCENT] = Field(
        100, description="How often, in percent, a success rate far below the others' has consequences.", examples=[100]
    )
    success_rate_minimum_hosts: Annotated[int, _COUNT] = Field(
        5, description="Rates are compared where so many upstreams have enough requests.", examples=[5]
    )
    success_rate_request_volume: Annotated[int, _COUNT] = Field(
        100, description="Enough are so many requests in an interval.", examples=[100]
    )
    success_rate_stdev_factor: Annotated[int, whole_number(0, 1_000_000)] = Field(
        1900, description="Far below is this many thousandths of the standard deviation below the mean.", examples=[1900]
    )
    enforcing_failure_percentage: Annotated[int, _PERCENT] = Field(
        0, description="How often, in percent, failing too often has consequences.", examples=[100]
    )
    failure_percentage_threshold: Annotated[int, _PERCENT] = Field(
        85, description="Too often is this part of the requests, in percent.", examples=[85]
    )
    failure_percentage_minimum_hosts: Annotated[int, _COUNT] = Field(5, description="As `success_rate_minimum_hosts`.", examples=[5])
    failure_percentage_request_volume: Annotated[int, _COUNT] = Field(50, description="As `success_rate_request_volume`.", examples=[50])


def checks_need_upstreams(route: Any) -> Iterator[Finding]:
    for key in ("health_checks", "outlier_detection"):
        if getattr(route, key) and not route.to:
            yield (key,), "is for upstreams: the route needs `to`"
