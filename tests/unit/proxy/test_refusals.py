from pathlib import Path

from authorize.policy.decision import NO_ROUTE
from authorize.service import Check
from proxy.refusals import Refusals
from tests.support.asgi import NAVIGATION, SCRIPT, Answer, incoming_from
from tests.support.options import make_options


async def test_a_decision_without_a_route_is_404_with_a_hint(tmp_path: Path) -> None:
    answer = Answer()
    refusals = Refusals(make_options(tmp_path), lambda origin: False)
    status = await refusals.send(incoming_from("https://a.example/", headers=NAVIGATION), Check(NO_ROUTE, None), answer.send, 0.0)
    assert status == answer.status == 404
    assert b"Check the address" in answer.body


async def test_a_404_never_echoes_a_foreign_origin(tmp_path: Path) -> None:
    answer = Answer()
    refusals = Refusals(make_options(tmp_path), lambda origin: False)
    headers = {**SCRIPT, "origin": "https://evil.example"}
    await refusals.send(incoming_from("https://a.example/", headers=headers), Check(NO_ROUTE, None), answer.send, 0.0)
    assert answer.values("access-control-allow-origin") == []
