"""Text that a denied client receives, and data that it never receives."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import NO_ROUTE, Outcome, decide
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from authorize.route_settings import RouteLinks
from authorize.service import AuthorizeService
from config.options import Options
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signed_urls import UrlSigner
from foundation.crypto.signing_key import SigningKey
from foundation.errors import GateError, UpstreamError, UpstreamTimeout
from proxy.incoming_request import IncomingRequest
from proxy.responses.denials import TooManyTunnels, denial_from_error
from proxy.responses.renderer import VerdictRenderer, send_denial
from proxy.responses.site_context import build_site_info
from proxy.sign_in.loops import SignInLoops
from proxy.upgrades import HandshakeRefused
from proxy.verdict import Enforcer, Forward, RequestDecision
from proxy.verdict_builder import VerdictBuilder, deny_for_error
from tests.support.asgi import NAVIGATION, SCRIPT, Answer, incoming_from
from tests.support.next_steps import next_steps
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, make_route, request, table, user


async def answered(
    options: Options, incoming: IncomingRequest, authorization: AuthorizationResult, enforcer: Enforcer = Enforcer.EMBEDDED
) -> Answer:
    authorize = AuthorizeService(options, Replica(MemoryStore()), SigningKey.from_options(options))
    incoming.site = build_site_info(options)
    verdict, answer = VerdictBuilder(options, authorize).build(RequestDecision(incoming, authorization, NOW, 0), enforcer), Answer()
    assert not isinstance(verdict, Forward)
    assert await VerdictRenderer(options).send(incoming, verdict, answer.send, NOW) == answer.status
    return answer


async def test_a_decision_without_a_route_is_404_with_a_hint(tmp_path: Path) -> None:
    answer = await answered(
        make_options(tmp_path), incoming_from("https://a.example/", headers=NAVIGATION), AuthorizationResult(NO_ROUTE, None)
    )
    assert answer.status == 404
    assert b"Check the address" in answer.body


def forbidden(identity: Identity, **keys: Any) -> AuthorizationResult:
    decision = decide(request(), identity, table(make_route(allowed_users=["boss@corp.com"], **keys)), NOW)
    return AuthorizationResult(decision, identity)


async def test_only_denied_administrator_is_linked_to_explanation(tmp_path: Path) -> None:
    options, pages = make_options(tmp_path, admin_allowed_users=["ann@corp.com"]), {}
    for email in ("ann@corp.com", "bob@corp.com"):
        incoming = incoming_from("https://app.example.com/", headers=NAVIGATION)
        answer = await answered(options, incoming, forbidden(user(email)))
        assert answer.status == 403
        pages[email] = answer.body.decode()
        assert incoming.request_id in pages[email]
        link = f"https://auth.example.com/.gate/admin/authorize/loggeddecision/explain/?request={incoming.request_id}"
        assert (link in pages[email]) is (email == "ann@corp.com")
    assert "administrators" not in pages["bob@corp.com"]


async def test_only_user_able_to_request_access_is_linked_to_it(tmp_path: Path) -> None:
    keys = {"access_requests": {"approvers": [{"groups": "leads"}]}}
    options, incoming = make_options(tmp_path), incoming_from("https://app.example.com/", headers=NAVIGATION)
    link = f"https://auth.example.com/.gate/access?route={RouteLinks(options).link_id(make_route(**keys))}"
    assert link in (await answered(options, incoming, forbidden(user(), **keys))).body.decode()
    denied = forbidden(user(), policy=[{"deny": {"user": "oidc/1"}}], **keys)
    for authorization in (
        forbidden(user()),
        denied,
        forbidden(user(provider="jwt"), **keys),
        forbidden(user(session_id="bearer/1"), **keys),
    ):
        assert "/.gate/access" not in (await answered(options, incoming, authorization)).body.decode()


async def test_denied_call_is_linked_to_the_request_of_its_tool(tmp_path: Path) -> None:
    keys = {"mcp": {}, "access_requests": {"approvers": [{"groups": "leads"}], "tools": ["delete*"]}}
    options = make_options(tmp_path)
    link = f"https://auth.example.com/.gate/access?route={RouteLinks(options).link_id(make_route(**keys))}"
    for policy, tool, url in (
        ([{"deny": {"user": "oidc/1"}}], "delete repo&x", f"{link}&tool=delete+repo%26x"),
        ([], "delete", f"{link}&tool=delete"),
        ([], "", ""),
        ([{"deny": {"user": "oidc/1"}}], "", ""),
    ):
        incoming = incoming_from("https://app.example.com/", method="POST")
        incoming.is_mcp = True
        authorization = forbidden(user(), policy=policy, **keys) if policy else forbidden(user(), **keys)
        authorization.requestable_tool = tool
        data = json.loads((await answered(options, incoming, authorization)).body)["error"]["data"]
        assert data.get("access_request_url", "") == url


async def test_denied_user_reads_next_step_and_contact(tmp_path: Path) -> None:
    incoming = incoming_from("https://app.example.com/", headers=NAVIGATION)
    plain = (await answered(make_options(tmp_path), incoming, forbidden(user()))).body.decode()
    assert "contact your administrator" in plain
    assert "Get help" not in plain
    authorization = forbidden(user(), refusal_message="Payroll <lets> you in.")
    helped = (await answered(make_options(tmp_path, support_contact="help@corp.com"), incoming, authorization)).body.decode()
    assert "ann@corp.com. Payroll &lt;lets&gt; you in." in helped
    assert f'href="mailto:help@corp.com?subject=Help%20with%20app.example.com%2C%20request%20{incoming.request_id}">Get help' in helped
    page = await answered(make_options(tmp_path, support_contact="https://help.corp.com/new"), incoming, forbidden(user()))
    assert 'href="https://help.corp.com/new">Get help' in page.body.decode()


async def test_sign_in_as_another_user_returns_to_original_request(tmp_path: Path) -> None:
    incoming = incoming_from("https://app.example.com/wages?year=2026&gate_session=secret", headers=NAVIGATION)
    page = (await answered(make_options(tmp_path), incoming, forbidden(user()))).body.decode()
    back = "https%3A%2F%2Fapp.example.com%2Fwages%3Fyear%3D2026"
    assert f'href="https://auth.example.com/.gate/signout/?gate_redirect_uri={back}">Sign in as another user' in page


async def test_a_404_never_echoes_a_foreign_origin(tmp_path: Path) -> None:
    headers = {**SCRIPT, "origin": "https://evil.example"}
    answer = await answered(
        make_options(tmp_path), incoming_from("https://a.example/", headers=headers), AuthorizationResult(NO_ROUTE, None)
    )
    assert answer.values("access-control-allow-origin") == []


async def test_client_with_invalid_token_gets_error_and_no_sign_in_redirect(tmp_path: Path) -> None:
    decision = decide(request(), None, table(make_route(allow_any_authenticated_user=True)), NOW)
    authorization = AuthorizationResult(decision, None, challenge='Bearer realm="gate", error="invalid_token"')
    answer = await answered(make_options(tmp_path), incoming_from("https://app.example.com/", headers=NAVIGATION), authorization)
    assert answer.status == 401
    assert answer.header("www-authenticate") == 'Bearer realm="gate", error="invalid_token"'
    assert "no-store" in answer.values("cache-control")
    assert answer.values("set-cookie") == answer.values("location") == []


STRONG = {"allow_any_authenticated_user": True, "acr_values": ["mfa", "hw"], "max_age": "15m"}


def weak() -> AuthorizationResult:
    identity = user(claims={"acr": ("pwd",)}, auth_time=NOW)
    return AuthorizationResult(decide(request(), identity, table(make_route(**STRONG)), NOW), identity)


async def test_a_browser_with_a_weak_sign_in_is_led_to_a_stronger_one(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    answer = await answered(options, incoming_from("https://app.example.com/wages", headers=NAVIGATION), weak())
    assert answer.status == 302
    (location,) = answer.values("location")
    params = UrlSigner(options).verify(location, NOW)
    assert (params["gate_acr_values"], params["gate_max_age"]) == ("mfa hw", "900")
    assert params["gate_redirect_uri"] == "https://app.example.com/wages"


@pytest.mark.parametrize("headers", [SCRIPT, {"upgrade": "websocket", "connection": "Upgrade"}], ids=["script", "websocket"])
async def test_client_application_receives_required_provider_parameters(tmp_path: Path, headers: dict[str, str]) -> None:
    answer = await answered(make_options(tmp_path), incoming_from("https://app.example.com/wages", headers=headers), weak())
    assert answer.status == 401
    assert answer.values("www-authenticate") == [
        'Bearer realm="gate", error="insufficient_user_authentication", '
        f'error_description="{Reason.ACR_NOT_MET.value}", acr_values="mfa hw", max_age="900"'
    ]
    assert answer.values("cache-control")[-1] == "no-store"
    assert b"stronger sign-in" in answer.body


async def test_unauthenticated_user_is_not_sent_to_stronger_sign_in(tmp_path: Path) -> None:
    unauthenticated = AuthorizationResult(decide(request(), None, table(make_route(**STRONG)), NOW), None)
    answer = await answered(make_options(tmp_path), incoming_from("https://app.example.com/wages", headers=SCRIPT), unauthenticated)
    assert answer.status == 401
    assert answer.values("www-authenticate") == ['Bearer realm="gate"']


async def test_browser_losing_stronger_sign_in_is_in_a_loop(tmp_path: Path) -> None:
    options, cookie = make_options(tmp_path), ""
    for _ in range(3):
        cookie = SignInLoops(options).completion_cookie([cookie.encode()], "app.example.com", NOW).partition(";")[0]
    incoming = incoming_from("https://app.example.com/wages", headers={**NAVIGATION, "cookie": cookie})
    answer = await answered(options, incoming, weak())
    assert answer.status == 400
    assert len(answer.values("set-cookie")) == 1  # so that another try is one


def errors_of(kind: type[GateError]) -> Iterator[GateError]:
    """One of each kind, whatever its maker asks for."""
    error = kind.__new__(kind, "it went wrong")
    vars(error).update(headers=(), problems=(), _facts="")
    yield error
    for each in kind.__subclasses__():
        yield from errors_of(each)


PLANES = [*Enforcer]


@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
@pytest.mark.parametrize("enforcer", PLANES)
async def test_no_error_is_a_dead_end_on_any_plane(tmp_path: Path, enforcer: Enforcer, accept: str) -> None:
    site = build_site_info(make_options(tmp_path, support_contact="help@corp.com"))
    for error in errors_of(GateError):
        incoming, answer = incoming_from("https://app.example.com/", headers={"accept": accept}), Answer()
        incoming.site = site
        await send_denial(incoming, deny_for_error(error, enforcer), answer.send)
        assert next_steps(answer.body.decode()), repr(error)
        assert b"mailto:help@corp.com?subject=" in answer.body, repr(error)


def refusals_of_every_kind() -> dict[str, AuthorizationResult]:
    signed_in_users, foreign = {"allow_any_authenticated_user": True}, "bearer/1"
    return {
        "no route": AuthorizationResult(NO_ROUTE, None),
        "forbidden": forbidden(user()),
        "forbidden, in own words": forbidden(user(), refusal_message="Payroll lets you in."),
        "nobody in particular": AuthorizationResult(replace(NO_ROUTE, outcome=Outcome.FORBIDDEN), None),
        "a program": forbidden(user(session_id=foreign)),
        "a bad token": AuthorizationResult(decide(request(), None, table(make_route(**signed_in_users)), NOW), None, challenge="Bearer"),
        "no certificate": AuthorizationResult(replace(forbidden(user()).decision, outcome=Outcome.CERTIFICATE), None),
    }


@pytest.mark.parametrize(
    ("accept", "text"), [("text/html", "Payroll &lt;lets&gt; you in &amp; out."), ("text/plain", "Payroll <lets> you in & out.")]
)
@pytest.mark.parametrize("enforcer", PLANES)
async def test_route_texts_are_on_its_refusals_on_every_data_plane(tmp_path: Path, enforcer: Enforcer, accept: str, text: str) -> None:
    authorization = forbidden(user(), refusal_message="Payroll <lets> you in & out.")
    incoming = incoming_from("https://app.example.com/", headers={**NAVIGATION, "accept": accept})
    page = (await answered(make_options(tmp_path), incoming, authorization, enforcer)).body.decode()
    assert text in page
    assert "If you need access" not in page


@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
@pytest.mark.parametrize("enforcer", PLANES)
@pytest.mark.parametrize("kind", refusals_of_every_kind())
async def test_no_refusal_is_a_dead_end_on_any_plane(tmp_path: Path, kind: str, enforcer: Enforcer, accept: str) -> None:
    options, authorization = make_options(tmp_path, support_contact="help@corp.com"), refusals_of_every_kind()[kind]
    incoming = incoming_from("https://app.example.com/", headers={**NAVIGATION, "accept": accept})
    answer = await answered(options, incoming, authorization, enforcer)
    assert answer.status in (401, 403, 404, 495), answer.status
    assert next_steps(answer.body.decode())
    assert b"mailto:help@corp.com?subject=" in answer.body


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (UpstreamError("db.internal:5432 refused"), 502, "can't be reached"),
        (UpstreamTimeout("db.internal:5432"), 504, "in time"),
        (TooManyTunnels("1024 tunnels are already open"), 429, "1024 tunnels"),
        (HandshakeRefused(501, "no hand-over here"), 501, "no hand-over here"),
    ],
)
async def test_error_page_displays_next_step_and_never_the_cause(error: GateError, status: int, text: str) -> None:
    answer, refusal = Answer(), denial_from_error(error)
    await send_denial(incoming_from("https://app.example.com/"), refusal, answer.send)
    assert (answer.status, refusal.log_detail) == (status, str(error))
    assert text in answer.body.decode()
    assert "db.internal" not in answer.body.decode()
