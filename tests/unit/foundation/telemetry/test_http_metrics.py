"""Each HTTP request counts once, under the specified metric names, with a bounded number of series."""

import pytest

from foundation.telemetry.http_metrics import MAX_SERIES, METHODS, OTHER, HttpMetrics
from foundation.telemetry.metrics import registry


def metric(name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


def series_of(service: str) -> list[dict[str, str]]:
    (family,) = (family for family in registry.collect() if family.name == "http_server_requests")
    return [sample.labels for sample in family.samples if sample.labels["service"] == service and sample.name.endswith("_total")]


@pytest.mark.parametrize("side", ["server", "client"])
def test_request_is_measured_by_host_method_and_status(side: str) -> None:
    calls = HttpMetrics.server("one") if side == "server" else HttpMetrics.client("one")
    calls.observe("app.example.com", "POST", "200", 0.004, 20, 700)
    calls.observe("app.example.com", "POST", "200", 0.001, 4, 2_000_000)
    calls.observe("app.example.com", "GET", "403", 0.001, 0, 9)
    calls.observe("app.example.com", "GET", "403", 0.001)
    labels = {"service": "one", "host": "app.example.com", "http_method": "POST", "http_status": "200"}
    assert metric(f"http_{side}_requests_total", **labels) == 2
    assert metric(f"http_{side}_request_duration_ms_sum", **labels) == pytest.approx(5)
    assert metric(f"http_{side}_request_duration_ms_bucket", **labels, le="2.0") == 1
    assert metric(f"http_{side}_request_size_bytes_sum", **labels) == 24
    assert metric(f"http_{side}_response_size_bytes_bucket", **labels, le="1024.0") == 1
    refused = {**labels, "http_method": "GET", "http_status": "403"}
    assert metric(f"http_{side}_requests_total", **refused) == 2
    assert metric(f"http_{side}_response_size_bytes_count", **refused) == 1  # the other was not counted


def test_methods_that_clients_invent_share_one_name() -> None:
    calls = HttpMetrics.server("two")
    for method in ("BREW", "get", "", "PROPFIND", "G" * 30):
        calls.observe("app.example.com", method, "200", 0.0, 0, 0)
    assert series_of("two") == [{"service": "two", "host": "app.example.com", "http_method": OTHER, "http_status": "200"}]
    assert metric("http_server_requests_total", **series_of("two")[0]) == 5
    for method in METHODS:
        calls.observe("app.example.com", method, "200", 0.0, 0, 0)
    assert {labels["http_method"] for labels in series_of("two")} == METHODS | {OTHER}


def test_beyond_a_bound_all_share_one_series() -> None:
    calls = HttpMetrics.server("three")
    assert HttpMetrics.server("three") is calls  # after a reload, too
    for number in range(MAX_SERIES + 100):
        calls.observe(f"{number}.example.com", "GET", "200", 0.0, 0, 0)
        calls.observe("0.example.com", "GET", "200", 0.0, 0, 0)
    series = series_of("three")
    assert len(series) == MAX_SERIES + 1
    assert metric("http_server_requests_total", service="three", host=OTHER, http_method=OTHER, http_status=OTHER) == 100
    assert (
        metric("http_server_requests_total", service="three", host="0.example.com", http_method="GET", http_status="200")
        == MAX_SERIES + 101
    )
