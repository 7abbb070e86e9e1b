"""A TCP route has a source and a destination, and no HTTP settings."""

from collections.abc import Callable
from typing import Any

import pytest

Problems = Callable[..., dict[str, str]]
FROM, TO = {"from": "tcp+https://ssh.example.com:22"}, {"to": "tcp://ssh.internal:22"}
CHECK = {"timeout": "1s", "interval": "5s", "unhealthy_threshold": 1, "healthy_threshold": 1}


def test_tcp_leads_to_tcp_alone(route_problems: Problems) -> None:
    assert route_problems(**FROM, **TO) == {}
    assert route_problems(**FROM, to=["tcp://a:22,3", "tcp://b:22,1"], timeout="1h", lb_policy="LEAST_REQUEST") == {}
    for to in ("http://ssh.internal:22", ["tcp://a:22", "http://b:22"]):
        found = route_problems(**FROM, to=to)
        assert list(found) == ["to"]
        assert "tcp://host:port" in found["to"]


def test_tunnel_is_requested_by_port(route_problems: Problems) -> None:
    assert "needs the port" in route_problems(**{"from": "tcp+https://ssh.example.com"}, **TO)["from"]


@pytest.mark.parametrize(
    "keys",
    [
        {"path": "/x"},
        {"prefix": "/x/"},
        {"allow_websockets": True},
        {"pass_identity_headers": True},
        {"set_request_headers": {"X-A": "b"}},
        {"tls_skip_verify": True},
        {"enable_cloud_serverless_authentication": True},
        {"preserve_host_header": True},
        {"cors_allow_preflight": True},
    ],
)
def test_http_only_option_is_an_error(route_problems: Problems, keys: dict[str, Any]) -> None:
    (key,) = keys
    assert "has no effect on" in route_problems(**FROM, **TO, **keys)[key]
    assert route_problems(**{"from": "https://app.example.com", "to": "https://app.internal"}, **keys) == {}


def test_silence_is_bounded_in_tunnels_alone(route_problems: Problems) -> None:
    assert route_problems(**FROM, **TO, idle_timeout="1h") == {}
    assert route_problems(**FROM, **TO, idle_timeout="0s") == {}
    http = {"from": "https://app.example.com", "to": "https://app.internal"}
    assert "requires a TCP route" in route_problems(**http, idle_timeout="1h")["idle_timeout"]


def test_upstream_is_checked_by_its_protocol(route_problems: Problems) -> None:
    assert route_problems(**FROM, **TO, health_checks=[{**CHECK, "tcp_health_check": {}}]) == {}
    found = route_problems(**FROM, **TO, health_checks=[{**CHECK, "http_health_check": {"path": "/"}}])
    assert "tcp_health_check" in found["health_checks[0].http_health_check"]
