"""The settings of the data plane."""

from datetime import timedelta

import pytest

from tests.unit.config.conftest import Load, Problems


def test_headers_from_the_environment_have_text_forms(load: Load) -> None:
    for written in ("X-A:b,X-C:d", '{"X-A": "b", "X-C": "d"}'):
        assert load({"HEADERS": written}, headers={"X-File": "y"}).headers == {"X-A": "b", "X-C": "d"}
    assert load({"HEADERS": "disable:true"}).headers == {}


@pytest.mark.parametrize(
    "written",
    [
        "https://auth.example.com",
        "https://auth.example.com:8443",
        "https://AUTH.example.com.",
        "tcp+https://auth.example.com:22",
    ],
)
def test_no_route_has_the_host_of_sign_in_and_the_admin(load: Load, problems: Problems, written: str) -> None:
    to = "tcp://127.0.0.1:9" if written.startswith("tcp") else "http://127.0.0.1:9"
    route = {"from": written, "to": to, "allow_any_authenticated_user": True}
    found = problems(policy=[route])
    assert set(found) == {"policy[0].from"}
    assert "is the host of authenticate_service_url" in found["policy[0].from"]
    assert load(policy=[{**route, "from": "https://*.example.com", "to": "http://127.0.0.1:9"}]), "of which it is left out"


def test_forward_auth_has_a_host_of_its_own(load: Load, problems: Problems) -> None:
    route = {"from": "https://fwd.example.com:8443", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True}
    assert load(forward_auth_url="https://fwd.example.com/").forward_auth_url.origin == "https://fwd.example.com"
    assert set(problems(forward_auth_url="https://auth.example.com:9")) == {"forward_auth_url"}
    assert set(problems(forward_auth_url="https://fwd.example.com", policy=[route])) == {"policy[0].from"}


def test_permission_is_cached_for_a_few_minutes(load: Load, problems: Problems) -> None:
    assert load().forward_auth_cache == timedelta(0)
    assert load(forward_auth_url="https://fwd.example.com", forward_auth_cache="5m").forward_auth_cache == timedelta(minutes=5)
    assert set(problems(forward_auth_cache="5s")) == {"forward_auth_cache"}


def test_client_applications_are_named_by_their_host(load: Load, problems: Problems) -> None:
    assert load().programmatic_redirect_domain_whitelist == ("localhost",)
    assert load(programmatic_redirect_domain_whitelist=["::1", "tool.example.com"]).programmatic_redirect_domain_whitelist[0] == "::1"
    for invalid in ("https://tool.example.com", "*.example.com", ".example.com", "tool.example.com:8443", "tool.example.com/cb"):
        assert set(problems(programmatic_redirect_domain_whitelist=["localhost", invalid])) == {"programmatic_redirect_domain_whitelist[1]"}


def test_an_address_that_the_chosen_family_leaves_out_is_a_problem(problems: Problems) -> None:
    policy = [{"from": "https://a.example.com", "to": "http://[::1]:8000"}, {"from": "https://b.example.com", "to": "http://10.0.0.1"}]
    assert problems(policy=policy) == {}
    assert problems(policy=policy, dns_lookup_family="V4_ONLY") == {"policy[0].to": "is an IPv6 address, and dns_lookup_family is V4_ONLY"}
    assert problems(policy=policy, dns_lookup_family="V6_ONLY") == {"policy[1].to": "is an IPv4 address, and dns_lookup_family is V6_ONLY"}


def test_unsupported_by_chosen_data_plane_is_an_error(load: Load, problems: Problems) -> None:
    web = {"from": "https://a.example.com", "to": "http://127.0.0.1:9", "upstream_http2": True}
    assert problems(policy=[web]) == {"policy[0].upstream_http2": "needs data_plane: envoy"}
    assert load(data_plane="envoy", policy=[web]).policy[0].upstream_http2
    tcp = {"from": "tcp+https://a.example.com:5432", "to": "tcp://127.0.0.1:9"}
    assert problems(data_plane="envoy", policy=[tcp]) == {}
    assert "all or proxy" in problems(data_plane="envoy", services="databroker")["data_plane"]


def test_envoy_limits_are_integers(load: Load) -> None:
    assert (load().envoy_max_connections, load().envoy_max_heap) == (20_000, 1024)
    assert load({"ENVOY_MAX_HEAP": "256"}, envoy_max_connections=5).envoy_max_heap == 256
