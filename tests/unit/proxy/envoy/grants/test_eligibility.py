"""What may be carried without asking, and what never: each reason to ask by itself."""

from pathlib import Path
from typing import Any

import pytest

from config.routes.told_headers import ToldNames
from proxy.envoy.grants.eligibility import is_plain, known_names
from proxy.rewriting.request_headers import RouteHeaders
from tests.support.options import make_options
from tests.unit.proxy.envoy.grants.conftest import ANYBODY, ROUTES, TO, Keeping, keeping

HERE = {"from": "https://app.example.com"}


async def granted(kept: Keeping, *asked: Any) -> dict[str, str]:
    found = await kept.ask(*asked)
    assert found is not None
    return found


async def test_a_grant_holds_what_gate_wrote(kept: Keeping) -> None:
    found = await granted(kept, "/x?a=1", ("cookie2", "x"))
    assert found["x-gate-claim-email"] == "ann@example.com"
    assert (found["x-forwarded-for"], found["x-real-ip"]) == ("192.0.2.7", "192.0.2.7")
    assert found["x-gate-edge-cluster"] == "upstream-1"
    assert len(found["x-request-id"]) == 16
    assert not {"cookie", "host", "user-agent", ":path", ":authority"} & found.keys()


@pytest.mark.parametrize(("default", "told"), [("30s", None), ("5s", "5000"), ("1ms", "1")])
async def test_a_time_other_than_the_usual_one_is_told(tmp_path: Path, default: str, told: str | None) -> None:
    async with keeping(tmp_path, routes=[{**HERE, **ANYBODY}], default_upstream_timeout=default) as kept:
        assert (await granted(kept)).get("x-envoy-upstream-rq-timeout-ms") == told


async def test_another_host_is_written_where_the_upstream_sees_another(tmp_path: Path) -> None:
    async with keeping(tmp_path, routes=[{**HERE, **ANYBODY, "host_rewrite": "inner.example.com"}]) as kept:
        assert (await granted(kept))[":authority"] == "inner.example.com"


@pytest.mark.parametrize(
    ("path", "headers", "how"),
    [
        ("/", (), {"cookie": ""}),
        ("/", (), {"cookie": "_gate=forged; __Host-_gate=forged"}),
        ("/", (), {"method": "POST"}),
        ("/", (), {"method": "OPTIONS"}),
        ("/", (), {"has_body": True, "method": "GET"}),
        ("/", (("content-length", "0"),), {}),
        ("/", (("authorization", "Basic YTpi"),), {}),
        ("/", (("accept", "text/event-stream"),), {}),
        ("/", (("content-type", "application/grpc"),), {}),
        ("/", (("upgrade", "websocket"),), {}),
        ("/", (("accept", "a"), ("accept", "b")), {}),
        ("/", (("x_under", "a"),), {}),
        ("//x", (), {}),
        ("/x;y", (), {}),
        ("/%41", (), {}),
        ("/.x", (), {}),
        ("/x?gate_session=1", (), {}),
        ("/x?", (), {}),
        ("/.gate/", (), {}),
        ("/ping", (), {}),
    ],
)
async def test_what_is_in_doubt_is_granted_nothing(kept: Keeping, path: str, headers: Any, how: Any) -> None:
    assert await kept.ask(path, *headers, **how) is None
    assert await kept.ask() is not None


@pytest.mark.parametrize(
    ("route", "settings"),
    [
        ({**TO, "allow_public_unauthenticated_access": True}, {}),
        ({**ANYBODY, "max_age": "1h"}, {}),
        ({**ANYBODY, "prefix": "/"}, {"granted": True}),
        ({**ANYBODY, "regex": ".*"}, {}),
        ({**ANYBODY, "prefix_rewrite": "/out", "prefix": "/"}, {}),
        ({"to": "http://127.0.0.1:9/base", "allow_any_authenticated_user": True}, {}),
        ({**ANYBODY, "host_rewrite_header": "x-host-of"}, {}),
        ({**ANYBODY, "upstream_http2": True}, {}),
        ({**ANYBODY, "timeout": "0s"}, {}),
        ({**ANYBODY, "timeout": "1h"}, {}),
        ({**ANYBODY, "to": ["http://127.0.0.1:9", "http://127.0.0.2:9"]}, {}),
        ({**ANYBODY, "remove_request_headers": ["Cookie"]}, {}),
        ({**ANYBODY, "set_response_headers": {"X-A": "1"}}, {}),
        ({**ANYBODY, "remove_response_headers": ["Server"]}, {}),
        ({**ANYBODY, "set_request_headers": {"X-A": "1"}}, {"granted": True}),
        ({**TO, "policy": [{"allow": {"and": [{"user": "oidc/ann"}, {"http_method": "GET"}]}}]}, {}),
        ({**TO, "policy": [{"allow": {"user": "oidc/ann"}}]}, {"granted": True}),
        ({**TO, "policy": [{"allow": {"user": "oidc/ann"}}, {"mode": "shadow", "deny": {"user": "oidc/bob"}}]}, {}),
        (ANYBODY, {"trusted_proxies": ["192.0.2.0/24"]}),
        (ANYBODY, {"decision_log_sample_rate": 1}),
        (ANYBODY, {"metrics_address": "127.0.0.1:0", "metrics_per_route": True, "granted": True}),
    ],
)
async def test_a_route_that_depends_on_more_is_granted_nothing(tmp_path: Path, route: dict[str, Any], settings: dict[str, Any]) -> None:
    is_granted = settings.pop("granted", False)
    async with keeping(tmp_path, routes=[{**HERE, **route}], **settings) as kept:
        assert (await kept.ask() is not None) is is_granted


async def test_what_is_in_shadow_anywhere_is_judged_each_time(tmp_path: Path) -> None:
    shadow = {"from": "https://other.example.com", **TO, "allow_any_authenticated_user": True, "mode": "shadow"}
    async with keeping(tmp_path, routes=[*ROUTES, shadow]) as kept:
        assert await kept.ask() is None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/", True),
        ("/a/b-c_d.e~f/", True),
        ("/a?b=%20&c=d", True),
        ("/robots.txt", False),
        ("/PING/x", False),
        ("/pingx", True),
        ("/x?%67ate_session=1", False),
        ("/x?a=1&g%61te=1", False),
        ("/x?GATE_session=1", False),
        ("/x?a#b", False),
        ("*", False),
        ("http://a/", False),
        ("/" + "a" * 2048, False),
    ],
)
def test_a_plain_target_has_one_reading(target: str, expected: bool) -> None:
    assert is_plain(target.encode()) is expected


def test_of_names_that_their_value_decides_nothing_is_known(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[{**HERE, **ANYBODY, "remove_request_headers": ["X-Out"]}])
    rules = RouteHeaders.build(options.policy[0], options, ToldNames(options.policy))
    names = ["accept", "x-out", "X_OUT", "x.gate.jwt", "te", "x-forwarded-for", "cookie", "connection", "authorization", ":path", "host"]
    known = known_names(rules, (name.encode() for name in [*names, "content-length", "upgrade", "content-type", "x-gate-edge-cluster"]))
    assert known == {b"accept": True, b"x-out": False, b"x.gate.jwt": False, b"te": False, b"x-forwarded-for": False, b"host": False}
