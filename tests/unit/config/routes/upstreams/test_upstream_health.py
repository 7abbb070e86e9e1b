import pytest

CHECK = {"timeout": "1s", "interval": "5s", "unhealthy_threshold": 2, "healthy_threshold": 1}
HTTP = {"http_health_check": {"path": "/healthz"}}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"health_checks": [{**CHECK, **HTTP}]}, {}),
        ({"health_checks": [{**CHECK, "tcp_health_check": {"send": {"text": "50494E47"}, "receive": [{"text": "50"}]}}]}, {}),
        ({"health_checks": [{**CHECK, **HTTP}, {**CHECK, "tcp_health_check": {}}]}, {}),
        ({"outlier_detection": {}}, {}),
        ({"outlier_detection": {"consecutive_5xx": 3, "base_ejection_time": "10s", "max_ejection_percent": 50}}, {}),
        ({"health_checks": [CHECK]}, {"health_checks[0]": "and has 0"}),
        ({"health_checks": [{**CHECK, **HTTP, "tcp_health_check": {}}]}, {"health_checks[0]": "and has 2"}),
        ({"health_checks": [{**HTTP}]}, {f"health_checks[0].{key}": "is required" for key in CHECK}),
        ({"health_checks": [{**CHECK, "grpc_health_check": {}}]}, {}),
        ({"health_checks": [{**CHECK, "grpc_health_check": {"service_name": "shop.Orders", "authority": "orders.internal"}}]}, {}),
        ({"health_checks": [{**CHECK, **HTTP, "grpc_health_check": {}}]}, {"health_checks[0]": "and has 2"}),
        (
            {"health_checks": [{**CHECK, "grpc_health_check": {"authority": "a b"}}]},
            {"health_checks[0].grpc_health_check.authority": "host"},
        ),
        ({"health_checks": [{**CHECK, "http_health_check": {}}]}, {"health_checks[0].http_health_check.path": "is required"}),
        (
            {"health_checks": [{**CHECK, "http_health_check": {"path": "x"}}]},
            {"health_checks[0].http_health_check.path": "must start with /"},
        ),
        (
            {"health_checks": [{**CHECK, "http_health_check": {"path": "/", "expected_statuses": [{"start": 300, "end": 300}]}}]},
            {"health_checks[0].http_health_check.expected_statuses[0].end": "must be more than start"},
        ),
        (
            {"health_checks": [{**CHECK, "tcp_health_check": {"send": {"text": "PING"}}}]},
            {"health_checks[0].tcp_health_check.send.text": "hexadecimal"},
        ),
        ({"outlier_detection": {"consecutive_5xx": 0}}, {"outlier_detection.consecutive_5xx": "whole number from 1"}),
        ({"outlier_detection": {"consecutive5xx": 1}}, {"outlier_detection.consecutive5xx": "Did you mean consecutive_5xx?"}),
        ({"outlier_detection": {}, "to": None, "redirect": {"https_redirect": True}}, {"outlier_detection": "is for upstreams"}),
    ],
)
def test_checks_and_detection(route_problems, keys, expected):
    found = route_problems(**keys)
    assert found.keys() == expected.keys()
    for key, part in expected.items():
        assert part in found[key]
