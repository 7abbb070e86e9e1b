from pathlib import Path

import pytest

from authorize.policy.decision import NO_ROUTE, decide
from authorize.policy.identity import Identity
from authorize.service import Check
from gateproject.crypto.signed_urls import UrlSigner
from proxy.refusals import Refusals
from proxy.sign_in_loops import SignInLoops
from tests.support.asgi import NAVIGATION, SCRIPT, Answer, incoming_from
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, make_route, request, table, user


async def test_a_decision_without_a_route_is_404_with_a_hint(tmp_path: Path) -> None:
    answer = Answer()
    refusals = Refusals(make_options(tmp_path), lambda origin: False)
    status = await refusals.send(incoming_from("https://a.example/", headers=NAVIGATION), Check(NO_ROUTE, None), answer.send, 0.0)
    assert status == answer.status == 404
    assert b"Check the address" in answer.body


def forbidden(person: Identity) -> Check:
    decision = decide(request(), person, table(make_route(allowed_users=["boss@corp.com"])), NOW)
    return Check(decision, person)


async def test_an_administrator_who_is_refused_is_led_to_the_explanation_and_nobody_else_is(tmp_path: Path) -> None:
    refusals = Refusals(make_options(tmp_path), lambda origin: False, lambda identity: identity.email == "ann@corp.com")
    pages = {}
    for email in ("ann@corp.com", "bob@corp.com"):
        answer, incoming = Answer(), incoming_from("https://app.example.com/", headers=NAVIGATION)
        assert await refusals.send(incoming, forbidden(user(email)), answer.send, 0.0) == 403
        pages[email] = answer.body.decode()
        assert incoming.request_id in pages[email]
        link = f"https://auth.example.com/.gate/admin/authorize/loggeddecision/explain/?request={incoming.request_id}"
        assert (link in pages[email]) is (email == "ann@corp.com")
    assert "administrators" not in pages["bob@corp.com"]


async def test_a_404_never_echoes_a_foreign_origin(tmp_path: Path) -> None:
    answer = Answer()
    refusals = Refusals(make_options(tmp_path), lambda origin: False)
    headers = {**SCRIPT, "origin": "https://evil.example"}
    await refusals.send(incoming_from("https://a.example/", headers=headers), Check(NO_ROUTE, None), answer.send, 0.0)
    assert answer.values("access-control-allow-origin") == []


async def test_a_program_with_a_bad_token_is_told_so_and_not_sent_to_sign_in(tmp_path: Path) -> None:
    answer = Answer()
    refusals = Refusals(make_options(tmp_path), lambda origin: False)
    decision = decide(request(), None, table(make_route(allow_any_authenticated_user=True)), NOW)
    check = Check(decision, None, challenge='Bearer realm="gate", error="invalid_token"')
    assert await refusals.send(incoming_from("https://app.example.com/", headers=NAVIGATION), check, answer.send, 0.0) == 401
    assert answer.header("www-authenticate") == 'Bearer realm="gate", error="invalid_token"'
    assert "no-store" in answer.values("cache-control")
    assert answer.values("set-cookie") == answer.values("location") == []


STRONG = {"allow_any_authenticated_user": True, "acr_values": ["mfa", "hw"], "max_age": "15m"}


def weak() -> Check:
    person = user(claims={"acr": ("pwd",)}, authenticated=NOW)
    return Check(decide(request(), person, table(make_route(**STRONG)), NOW), person)


async def test_a_browser_with_a_weak_sign_in_is_led_to_a_stronger_one(tmp_path: Path) -> None:
    answer, options = Answer(), make_options(tmp_path)
    incoming = incoming_from("https://app.example.com/wages", headers=NAVIGATION)
    assert await Refusals(options, lambda origin: False).send(incoming, weak(), answer.send, NOW) == 302
    (location,) = answer.values("location")
    params = UrlSigner(options).verify(location, NOW)
    assert (params["gate_acr_values"], params["gate_max_age"]) == ("mfa hw", "900")
    assert params["gate_redirect_uri"] == "https://app.example.com/wages"


@pytest.mark.parametrize("headers", [SCRIPT, {"upgrade": "websocket", "connection": "Upgrade"}], ids=["script", "websocket"])
async def test_a_program_is_told_what_to_ask_the_provider_for(tmp_path: Path, headers: dict[str, str]) -> None:
    answer = Answer()
    incoming = incoming_from("https://app.example.com/wages", headers=headers)
    assert await Refusals(make_options(tmp_path), lambda origin: False).send(incoming, weak(), answer.send, NOW) == 401
    assert answer.values("www-authenticate") == [
        'Bearer realm="gate", error="insufficient_user_authentication", '
        'error_description="you signed in another way than is asked for here", acr_values="mfa hw", max_age="900"'
    ]
    assert answer.values("cache-control")[-1] == "no-store"
    assert b"asks for more" in answer.body


async def test_who_is_not_signed_in_at_all_is_asked_for_no_stronger_sign_in(tmp_path: Path) -> None:
    answer, nobody = Answer(), Check(decide(request(), None, table(make_route(**STRONG)), NOW), None)
    incoming = incoming_from("https://app.example.com/wages", headers=SCRIPT)
    assert await Refusals(make_options(tmp_path), lambda origin: False).send(incoming, nobody, answer.send, NOW) == 401
    assert answer.values("www-authenticate") == ['Bearer realm="gate"']


async def test_a_browser_whose_stronger_sign_ins_vanish_is_in_a_loop(tmp_path: Path) -> None:
    options, cookie = make_options(tmp_path), ""
    for _ in range(3):
        cookie = SignInLoops(options).completed([cookie.encode()], "app.example.com", NOW).partition(";")[0]
    answer, incoming = Answer(), incoming_from("https://app.example.com/wages", headers={**NAVIGATION, "cookie": cookie})
    assert await Refusals(options, lambda origin: False).send(incoming, weak(), answer.send, NOW) == 400
