from pathlib import Path

from authorize.policy.decision import NO_ROUTE, decide
from authorize.policy.identity import Identity
from authorize.service import Check
from proxy.refusals import Refusals
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
