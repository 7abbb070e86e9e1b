"""Host label of a counted request: a configured host, or none."""

import pytest

from foundation.telemetry.http_metrics import OTHER
from foundation.telemetry.metrics import registry
from proxy.observe.request_metrics import _MAX_CACHED_LABELS, RequestCounter

HOSTS = {"app.example.com", "*.apps.example.com", "auth.example.com", "[2001:db8::1]"}


def counted(service: str) -> dict[str, float]:
    (family,) = (family for family in registry.collect() if family.name == "http_server_requests")
    return {
        sample.labels["host"]: sample.value
        for sample in family.samples
        if sample.labels["service"] == service and sample.name.endswith("_total")
    }


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (b"app.example.com", "app.example.com"),
        (b"App.Example.com.:8443", "app.example.com"),
        (b"auth.example.com", "auth.example.com"),
        (b"one.apps.example.com", "*.apps.example.com"),
        (b"[2001:DB8:0::1]:443", "[2001:db8::1]"),
        (b"apps.example.com", OTHER),
        (b"two.one.apps.example.com", OTHER),
        (b"unknown.example", OTHER),
        (b"*.apps.example.com", OTHER),
        (b'app.example.com"} 1', OTHER),
        (b"\xff", OTHER),
        (b"", OTHER),
    ],
)
def test_host_belongs_to_gate_or_not(host: bytes, name: str, request: pytest.FixtureRequest) -> None:
    service = request.node.name
    answered = RequestCounter(service, HOSTS)
    for _ in range(2):
        answered(host, b"GET", 200, 0.1, 0, 5)
    assert counted(service) == {name: 2}


def test_spellings_are_not_remembered_without_end() -> None:
    answered = RequestCounter("spellings", HOSTS)
    for number in range(_MAX_CACHED_LABELS + 10):
        answered(b"%d.apps.example.com" % number, b"GET", 200, 0.1, 0, 0)
        answered(b"%d.unknown.example" % number, b"GET", 404, 0.1, 0, 0)
    assert counted("spellings") == {"*.apps.example.com": _MAX_CACHED_LABELS + 10, OTHER: _MAX_CACHED_LABELS + 10}
    assert len(answered._series_cache) == _MAX_CACHED_LABELS
