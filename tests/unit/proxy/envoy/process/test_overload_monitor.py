"""Envoy's overload state in metrics and log, each change once."""

from structlog.testing import capture_logs

from foundation.telemetry import metrics
from proxy.envoy.process.overload_monitor import OverloadMonitor
from proxy.envoy.resources.bootstrap import EnvoyLimits

HEAP = "overload.envoy.resource_monitors.fixed_heap.pressure"
CONNECTIONS = "http.edge.downstream_cx_active"
MAX = EnvoyLimits(heap=128, connections=100)
SHRINK = "overload.envoy.overload_actions.shrink_heap.active"
REFUSED = "listener.127.0.0.1_1.downstream_global_cx_overflow"


def reported(overload: OverloadMonitor, **stats: int) -> list[str]:
    with capture_logs() as lines:
        overload.update(stats)
    return [line["event"] for line in lines]


def test_pressure_is_a_number_between_0_and_1() -> None:
    OverloadMonitor(MAX).update({HEAP: 37, CONNECTIONS: 100})
    found = {word: metrics.envoy_resource_usage.labels(word)._value.get() for word in ("heap", "connections")}
    assert found == {"heap": 0.37, "connections": 1.0}


def test_overload_actions_are_logged_once() -> None:
    overload = OverloadMonitor(MAX)
    assert reported(overload, **{SHRINK: 0, REFUSED: 0}) == []
    assert reported(overload, **{SHRINK: 1}) == ["envoy overload actions active"]
    assert reported(overload, **{SHRINK: 1}) == []
    assert reported(overload, **{SHRINK: 0}) == ["envoy overload actions ended"]


def test_refused_connections_are_counted_from_the_last_time() -> None:
    overload = OverloadMonitor(MAX)
    assert reported(overload, **{REFUSED: 3}) == ["envoy rejected connections"]
    assert reported(overload, **{REFUSED: 3}) == []
    assert reported(overload, **{REFUSED: 1}) == [], "a restarted Envoy"
    with capture_logs() as lines:
        overload.update({REFUSED: 5})
    assert lines[0]["connections"] == 4
