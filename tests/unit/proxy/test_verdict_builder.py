"""Each verdict on a request, and its user; tests/contract/test_verdict_matrix.py checks the request that an upstream receives."""

from pathlib import Path
from typing import Any

import pytest

from authorize.authorizer import AuthorizationResult, WithheldCredentials
from authorize.policy.decision import NO_ROUTE, evaluate_route
from authorize.service import AuthorizeService
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from foundation.errors import AmbiguousPath, BadRequest, BrokerError
from proxy.sign_in.saved_forms import NotSaved, SavedForm
from proxy.upgrades import SpdyOffer
from proxy.verdict import Deny, Enforcer, Forward, Redirect, RequestDecision, SignIn, Verdict
from proxy.verdict_builder import VerdictBuilder, attach_saved_form, deny_for_error, is_websocket_request
from proxy.websocket.handshake import Handshake
from tests.support.asgi import CURL, NAVIGATION, SCRIPT, incoming_from
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, user

OWN = "https://app.example.com"
HANDSHAKE = {"sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
UPGRADE = {"connection": "Upgrade", "upgrade": "websocket", **HANDSHAKE}
SPDY = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
OTHERS = (Enforcer.EXT_AUTHZ, Enforcer.FORWARD_AUTH, Enforcer.FORWARD_AUTH_STATUS_ONLY)
ANYONE = {"allow_any_authenticated_user": True}
BOTH = {**ANYONE, "allow_websockets": True, "allow_spdy": True, "websocket_origins": ["https://friend.example"]}
SHOWS = {**ANYONE, "cluster_service_account_token": "the-cluster-token"}


def verdict(
    directory: Path,
    keys: dict[str, Any],
    enforcer: Enforcer = Enforcer.EMBEDDED,
    url: str = f"{OWN}/x",
    *,
    signed_in: bool = True,
    others: tuple[dict[str, Any], ...] = (),
    **scope: Any,
) -> Verdict:
    options = make_options(directory, policy=[{"from": OWN, **({} if "redirect" in keys else {"to": "http://up"}), **keys}, *others])
    authorize = AuthorizeService(options, Replica(MemoryStore()), SigningKey.from_options(options))
    incoming, identity = incoming_from(url, **scope), user() if signed_in else None
    route, *_ = authorize.routes.routes()
    authorization = AuthorizationResult(evaluate_route(incoming.request, identity, route, NOW), identity)
    return VerdictBuilder(options, authorize).build(RequestDecision(incoming, authorization, NOW, 0), enforcer)


@pytest.mark.parametrize(
    ("keys", "headers", "expected"),
    [
        (ANYONE, {}, type(None)),
        (ANYONE, SPDY, "allow_spdy"),
        ({**ANYONE, "allow_websockets": True}, SPDY, "allow_spdy"),
        (ANYONE, {"upgrade": "SPDY/3.1"}, type(None)),
        (ANYONE, {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c"}, type(None)),  # the upstream does not see it
        (BOTH, SPDY, SpdyOffer),
        (BOTH, UPGRADE, Handshake),
        (BOTH, {**UPGRADE, "origin": OWN}, Handshake),
        (BOTH, {**UPGRADE, "origin": "https://friend.example"}, Handshake),
        (BOTH, {**UPGRADE, "origin": "https://evil.example"}, 403),
        (BOTH, {**UPGRADE, "sec-websocket-version": "8"}, 426),
        (ANYONE, UPGRADE, "allow_websockets"),
        ({**ANYONE, "allow_spdy": True}, UPGRADE, "allow_websockets"),
    ],
)
def test_forwarding_names_supported_upstream_protocols(
    tmp_path: Path, keys: dict[str, Any], headers: dict[str, str], expected: Any
) -> None:
    found = verdict(tmp_path, keys, headers=headers)
    if isinstance(expected, int):
        assert isinstance(found, Deny)
        assert found.status == expected
    elif isinstance(expected, str):
        assert isinstance(found, Deny)
        assert (found.status, expected in found.reason) == (403, True)
    else:
        assert isinstance(found, Forward)
        assert (type(found.upgrade), found.withheld) == (expected, WithheldCredentials.GATE)


@pytest.mark.parametrize("enforcer", OTHERS)
def test_other_proxies_forward_no_mcp_request_of_a_foreign_page(tmp_path: Path, enforcer: Enforcer) -> None:
    keys = {**ANYONE, "mcp": {"path": "/mcp"}}
    for path, origin, expected in (
        ("/mcp", "https://evil.example", 403),
        ("/mcp/", "https://evil.example", 403),
        ("/page", "https://evil.example", None),
        ("/mcp", OWN, None),
    ):
        found = verdict(tmp_path, keys, enforcer, f"{OWN}{path}", headers={"origin": origin})
        assert (found.status if isinstance(found, Deny) else None) == expected


@pytest.mark.parametrize("enforcer", OTHERS)
@pytest.mark.parametrize(
    ("keys", "path", "headers", "why"),
    [
        (ANYONE, "/.gate/callback/", {}, "the front proxy must"),
        (ANYONE, "/.well-known/gate/jwks.json", {}, "the front proxy must"),
        (ANYONE, "/?gate_session=x", {}, "tokens in the query"),
        (ANYONE, "/?a=b&gate%5Fsession=x", {}, "tokens in the query"),
        (SHOWS, "/", {}, "the upstream of this"),
        (ANYONE, "/", HANDSHAKE, "can set allow_websockets"),
        (ANYONE, "/", SPDY, "can set allow_spdy"),
        (BOTH, "/", {**HANDSHAKE, "origin": "https://evil.example"}, "another origin"),
        (BOTH, "/", {**HANDSHAKE, "origin": "null"}, "another origin"),
    ],
)
def test_routes_unsupported_by_other_proxies(
    tmp_path: Path, enforcer: Enforcer, keys: dict[str, Any], path: str, headers: dict[str, str], why: str
) -> None:
    found = verdict(tmp_path, keys, enforcer, OWN + path, headers=headers)
    assert isinstance(found, Deny)
    assert (found.status, why in found.reason) == (403, True)


@pytest.mark.parametrize("enforcer", OTHERS)
def test_identity_headers_of_another_route_are_unsupported_by_other_proxies(tmp_path: Path, enforcer: Enforcer) -> None:
    sending = {"from": "https://other.example.com", "to": "http://up/below", "identity_headers": "iap", **ANYONE}
    found = verdict(tmp_path, ANYONE, enforcer, OWN + "/", others=(sending,), headers={"x_goog_authenticated_user_email": "admin"})
    assert isinstance(found, Forward) if enforcer is Enforcer.EXT_AUTHZ else isinstance(found, Deny) and found.status == 403
    assert isinstance(verdict(tmp_path, ANYONE, enforcer, OWN + "/", others=(sending,), headers={"x-mine": "1"}), Forward)


@pytest.mark.parametrize("enforcer", OTHERS)
@pytest.mark.parametrize("path", ["/", "/.gate", "/x/.gate/", "/.gatekeeper/", "/?a=b&session=x"])
@pytest.mark.parametrize("headers", [{}, SPDY, HANDSHAKE, {**HANDSHAKE, "origin": OWN}, {**HANDSHAKE, "origin": "https://friend.example"}])
def test_routes_supported_by_other_proxies_get_no_upgrade(tmp_path: Path, enforcer: Enforcer, path: str, headers: dict[str, str]) -> None:
    found = verdict(tmp_path, BOTH, enforcer, OWN + path, headers=headers)
    assert isinstance(found, Forward)
    assert found.upgrade is None


@pytest.mark.parametrize(
    ("headers", "led"),
    [
        (NAVIGATION, (Enforcer.EMBEDDED, Enforcer.EXT_AUTHZ, Enforcer.FORWARD_AUTH)),
        (SCRIPT, ()),
        ({"connection": "Upgrade", "upgrade": "h2c"}, ()),
        (HANDSHAKE, ()),  # a front proxy has taken the upgrade out
        (CURL, (Enforcer.FORWARD_AUTH,)),  # which has decided to redirect
        (
            {"authorization": "Basic YTpi"} | NAVIGATION,
            (Enforcer.EMBEDDED, Enforcer.EXT_AUTHZ, Enforcer.FORWARD_AUTH),
        ),
        ({"authorization": "Basic YTpi", "accept": "text/html"}, (Enforcer.FORWARD_AUTH,)),
        ({"accept": "text/html"}, (Enforcer.EMBEDDED, Enforcer.EXT_AUTHZ, Enforcer.FORWARD_AUTH)),
    ],
)
def test_requests_redirected_to_sign_in(tmp_path: Path, headers: dict[str, str], led: tuple[Enforcer, ...]) -> None:
    for enforcer in Enforcer:
        found = verdict(tmp_path, BOTH, enforcer, headers=headers, signed_in=False)
        assert isinstance(found, SignIn) if enforcer in led else isinstance(found, Deny) and found.status == 401, enforcer


def test_status_only_enforcement_point_gets_no_redirect(tmp_path: Path) -> None:
    for enforcer in Enforcer:
        found = verdict(tmp_path, {"redirect": {"host_redirect": "new.example"}}, enforcer, signed_in=False)
        assert isinstance(found, Deny if enforcer is Enforcer.FORWARD_AUTH_STATUS_ONLY else Redirect), enforcer


def test_a_host_of_no_route_is_an_error_of_the_front_proxys(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    verdicts = VerdictBuilder(options, AuthorizeService(options, Replica(MemoryStore()), SigningKey.from_options(options)))
    decision = RequestDecision(incoming_from(f"{OWN}/"), AuthorizationResult(NO_ROUTE, None), NOW, 0)
    found = {enforcer: verdicts.build(decision, enforcer) for enforcer in Enforcer}
    assert [enforcer for enforcer, each in found.items() if isinstance(each, Deny) and each.status == 404] == [
        Enforcer.EMBEDDED,
        Enforcer.EXT_AUTHZ,
    ]


def test_verdict_on_a_form_follows_from_its_storage() -> None:
    sign_in, incoming = SignIn("https", None), incoming_from(f"{OWN}/x")
    form = SavedForm("/.gate/form/1", "form=x")
    assert attach_saved_form(sign_in, form, incoming) == SignIn("https", None, form)
    assert attach_saved_form(sign_in, None, incoming) == sign_in
    refusal = attach_saved_form(sign_in, NotSaved("larger than 1 MiB"), incoming)
    assert isinstance(refusal, Deny)
    assert (refusal.status, "larger than 1 MiB" in refusal.reason) == (401, True)


@pytest.mark.parametrize(
    ("error", "statuses"),
    [
        (BadRequest("the path is odd"), (400, 400, 400, 403)),
        (AmbiguousPath("/a", "route b", "c"), (400, 400, 400, 403)),
        (BrokerError("away"), (503, 503, 503, 503)),
    ],
)
def test_error_has_the_status_of_its_origin(error: BadRequest | BrokerError, statuses: tuple[int, ...]) -> None:
    refusals = [deny_for_error(error, enforcer) for enforcer in Enforcer]
    assert tuple(each.status for each in refusals) == statuses
    assert {each.log_detail for each in refusals} == {error.operator_message}
    assert not [each for each in refusals if "away" in each.reason or "route b" in each.reason]


def test_websocket_is_detected_by_headers_of_every_browser() -> None:
    assert is_websocket_request([(b"sec-websocket-key", b"x"), (b"accept", b"*/*")])
    assert is_websocket_request([(b"upgrade", b"h2c, WebSocket")])
    assert not is_websocket_request([(b"upgrade", b"h2c"), (b"connection", b"upgrade")])
