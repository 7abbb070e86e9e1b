"""Step-up requirements of a route: they pass through the signed URL, the attempt and the request, and the response must meet them."""

import json
from typing import Any

import pytest

from authenticate.step_up import OLD, UNTOLD, WEAK, StepUpRequest
from foundation.errors import BadRequest

NOW = 1_800_000_000.0
BOTH = StepUpRequest(("mfa", "hw"), 900)


def test_it_comes_by_the_signed_url_and_stays_with_the_attempt() -> None:
    assert StepUpRequest.from_url({"gate_acr_values": "mfa hw", "gate_max_age": "900"}) == BOTH
    assert StepUpRequest.from_url({}) == StepUpRequest()
    for asked in (BOTH, StepUpRequest(("mfa",)), StepUpRequest(max_age=60), StepUpRequest(("mfa",), 60, is_pressed=True), StepUpRequest()):
        assert StepUpRequest.from_attempt(asked.to_attempt()) == asked
    assert StepUpRequest(is_pressed=True).to_attempt() == {}


@pytest.mark.parametrize("age", ["-1", "1.5", "1e3", "²", "900 ", "x"])
def test_what_is_no_time_is_refused(age: str) -> None:
    with pytest.raises(BadRequest):
        StepUpRequest.from_url({"gate_max_age": age})


@pytest.mark.parametrize(
    ("asked", "prompt", "params"),
    [
        (BOTH, "", {"acr_values": "mfa hw", "max_age": "900"}),
        (StepUpRequest(max_age=60, is_pressed=True), "", {"max_age": "60", "prompt": "login"}),
        (StepUpRequest(max_age=60, is_pressed=True), "consent", {"max_age": "60", "prompt": "consent login"}),
        (StepUpRequest(("mfa",), is_pressed=True), "login", {"acr_values": "mfa", "prompt": "login"}),
        (StepUpRequest(("mfa",), is_pressed=True), "none", {"acr_values": "mfa", "prompt": "login"}),
        (StepUpRequest(("mfa",)), "consent", {"acr_values": "mfa"}),
        (StepUpRequest(), "consent", {}),
    ],
)
def test_the_provider_is_asked_for_it(asked: StepUpRequest, prompt: str, params: dict[str, str]) -> None:
    assert asked.request_params({"prompt": prompt}, "login") == params


@pytest.mark.parametrize(
    ("usual", "claims"),
    [
        ("", {"id_token": {"auth_time": {"essential": True}}}),
        ('{"userinfo": {"groups": null}}', {"userinfo": {"groups": None}, "id_token": {"auth_time": {"essential": True}}}),
        ('{"id_token": {"groups": null}}', {"id_token": {"groups": None, "auth_time": {"essential": True}}}),
        ('{"id_token": null}', {"id_token": {"auth_time": {"essential": True}}}),
        ("no JSON", None),
        ("[1]", None),
        ('{"id_token": 1}', None),
    ],
)
def test_the_time_of_the_sign_in_is_asked_for_by_name_where_the_provider_looks_at_that(usual: str, claims: Any) -> None:
    asked = StepUpRequest(max_age=60)
    found = asked.request_params({"claims": usual}, "login", takes_claims=True)["claims"]
    assert (usual if claims is None else json.dumps(claims, separators=(",", ":"))) == found
    assert "claims" not in asked.request_params({"claims": usual}, "login")
    assert "claims" not in StepUpRequest(("mfa",)).request_params({}, "login", takes_claims=True)


@pytest.mark.parametrize(
    ("claims", "issued", "shortfall"),
    [
        ({"acr": "mfa", "auth_time": NOW - 900}, NOW, ""),
        ({"acr": "hw"}, NOW, UNTOLD),
        ({"acr": "hw", "auth_time": None}, NOW, UNTOLD),
        ({"acr": "hw", "auth_time": NOW}, NOW - 901, OLD),
        ({"acr": "mfa", "auth_time": NOW - 901}, NOW, OLD),
        ({"acr": "mfa", "auth_time": NOW + 99}, NOW - 901, OLD),
        ({"acr": "mfa", "auth_time": str(NOW)}, NOW, UNTOLD),
        ({"acr": "mfa", "auth_time": True}, NOW, UNTOLD),
        ({"acr": "pwd", "auth_time": NOW}, NOW, WEAK),
        ({"acr": ["mfa"]}, NOW, WEAK),
        ({"acr": "mfa hw"}, NOW, WEAK),
        ({}, NOW, WEAK),
    ],
)
def test_the_answer_is_held_against_it(claims: dict[str, Any], issued: float, shortfall: str) -> None:
    assert BOTH.shortfall(claims, issued, NOW) == shortfall
    assert StepUpRequest().shortfall(claims, issued, NOW) == ""
