"""Rates from two snapshots of a gate; other servers are reported and break nothing."""

import json

import pytest

from foundation.readiness import ReadinessState
from gateproject.status.snapshot import Reading, rate, read, routes

READY = json.dumps(
    {"ready": True, "components": {"data broker": {"state": "ok", "reason": ""}, "provider": {"state": "degraded", "reason": "away"}}}
)


def metrics(requests: int, errors: int = 0, slow: int = 0, route: str = "wiki") -> str:
    of = f'envoy_cluster_name="{route}",service="gate"'
    fast = requests - slow
    return f"""# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{{{of}}} {requests}
# TYPE envoy_cluster_upstream_rq counter
envoy_cluster_upstream_rq{{{of},envoy_response_code="200"}} {requests}
# TYPE envoy_cluster_upstream_rq_xx counter
envoy_cluster_upstream_rq_xx{{{of},envoy_response_code_class="2"}} {requests - errors}
envoy_cluster_upstream_rq_xx{{{of},envoy_response_code_class="5"}} {errors}
# TYPE envoy_cluster_upstream_rq_time histogram
envoy_cluster_upstream_rq_time_bucket{{{of},le="10"}} {fast}
envoy_cluster_upstream_rq_time_bucket{{{of},le="1000"}} {requests}
envoy_cluster_upstream_rq_time_bucket{{{of},le="+Inf"}} {requests}
envoy_cluster_upstream_rq_time_sum{{{of}}} {5 * fast + 500 * slow}
envoy_cluster_upstream_rq_time_count{{{of}}} {requests}
# TYPE envoy_cluster_upstream_rq_active gauge
envoy_cluster_upstream_rq_active{{{of}}} 3
# TYPE envoy_cluster_membership_total gauge
envoy_cluster_membership_total{{{of}}} 2
# TYPE envoy_cluster_membership_healthy gauge
envoy_cluster_membership_healthy{{{of}}} 1
# TYPE gate_build_info gauge
gate_build_info{{service="gate",version="1.0",revision="abc"}} 1
"""


def reading(text: str, at: float, ready: str = READY, status: int = 200) -> Reading:
    pages = {"/readyz?format=json": (status, ready), "/metrics": (200, text)}
    return read("127.0.0.1:9090", lambda address, path: pages[path], lambda: at)


def test_process_metrics_are_displayed() -> None:
    found = reading(metrics(5), 1.0)
    assert found.is_ready
    assert [(part.name, part.state, part.reason) for part in found.parts] == [
        ("data broker", ReadinessState.OK, ""),
        ("provider", ReadinessState.DEGRADED, "away"),
    ]
    assert (found.label("gate_build_info", "version"), found.label("no_such", "version")) == ("1.0", "")
    assert (found.value("envoy_cluster_upstream_rq_xx"), found.value("no_such")) == (5, None)


def test_unready_gate_is_read_too() -> None:
    found = reading(metrics(5), 1.0, json.dumps({"ready": False, "components": {}}), status=503)
    assert (found.is_ready, found.trouble) == (False, "")


def test_rates_and_times_are_those_between_two_readings() -> None:
    before, now = reading(metrics(100, errors=1), 10.0), reading(metrics(120, errors=3, slow=10), 12.0)
    (route,) = routes(now, before)
    assert (route.name, route.per_second, route.errors_per_second, route.active) == ("wiki", 10.0, 1.0, 3)
    assert (route.healthy, route.upstreams) == (1, 2)
    assert route.mean == pytest.approx((5 * 110 + 500 * 10 - 500) / 20)
    assert route.p95 == 1000
    assert rate(now, before, "envoy_cluster_upstream_rq_total") == 10.0
    assert rate(now, before, "no_such") is None


def test_without_new_requests_times_are_since_start() -> None:
    (route,) = routes(reading(metrics(100), 12.0), reading(metrics(100), 10.0))
    assert (route.per_second, route.mean, route.p95) == (0.0, 5.0, 10.0)
    (never,) = routes(reading(metrics(0), 12.0), reading(metrics(0), 10.0))
    assert (never.mean, never.p95) == (None, None)


def test_a_process_that_was_started_again_has_no_rate_below_zero() -> None:
    (route,) = routes(reading(metrics(2), 12.0), reading(metrics(100), 10.0))
    assert route.per_second == 0.0


def test_the_busiest_route_comes_first() -> None:
    both = metrics(1, route="quiet") + metrics(50, route="busy")
    assert [route.name for route in routes(reading(both, 2.0), reading("", 1.0))] == ["busy", "quiet"]


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (0, "no response from 127.0.0.1:9090: refused", "no response from"),
        (404, "<html>", "Check that this is"),
        (200, "<html>", "Check that this is"),
        (200, "[]", "Check that this is"),
        (200, '{"ready": true, "components": {"a": {"state": "new", "reason": ""}}}', "Check that this is"),
    ],
)
def test_unexpected_response_is_named(status: int, text: str, message: str) -> None:
    found = reading("", 1.0, text, status)
    assert message in found.trouble
    assert not found.is_ready
    assert routes(found, found) == []


def test_unreadable_metrics_are_reported() -> None:
    assert "unexpected response" in reading("a{ 1", 1.0).trouble


WORKERS = """process_start_time_seconds{worker="0"} 100
process_start_time_seconds{worker="1"} 160
process_resident_memory_bytes{worker="0"} 10
process_resident_memory_bytes{worker="1"} 20
gate_config_last_reload_success_timestamp{service="gate",worker="0"} 200
gate_config_last_reload_success_timestamp{service="gate",worker="1"} 201
gate_config_last_reload_success{service="gate",worker="0"} 1
gate_config_last_reload_success{service="gate",worker="1"} 0
envoy_cluster_membership_total{envoy_cluster_name="wiki",worker="0"} 2
envoy_cluster_membership_total{envoy_cluster_name="wiki",worker="1"} 2
envoy_cluster_membership_healthy{envoy_cluster_name="wiki",worker="0"} 2
envoy_cluster_membership_healthy{envoy_cluster_name="wiki",worker="1"} 1
envoy_cluster_upstream_rq_total{envoy_cluster_name="wiki",worker="0"} 3
envoy_cluster_upstream_rq_total{envoy_cluster_name="wiki",worker="1"} 4
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("process_start_time_seconds", 100),
        ("process_resident_memory_bytes", 30),
        ("gate_config_last_reload_success_timestamp", 200),
        ("gate_config_last_reload_success", 0),
    ],
)
def test_only_summable_worker_metrics_are_summed(name: str, value: float) -> None:
    assert reading(WORKERS, 1.0).value(name) == value


def test_an_upstream_that_every_worker_has_counts_once() -> None:
    (route,) = routes(reading(WORKERS, 2.0), reading(WORKERS, 1.0))
    assert (route.upstreams, route.healthy) == (2, 1)
