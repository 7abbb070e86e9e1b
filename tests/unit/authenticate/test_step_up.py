"""Step-up requirements of a route: they pass through the signed URL, the attempt and the request, and the response must meet them."""

import json
from typing import Any

import pytest

from authenticate.step_up import ACR_NOT_MET, AUTH_TIME_MISSING, MAX_AGE_EXCEEDED, StepUpRequest
from foundation.errors import BadRequest

NOW = 1_800_000_000.0
BOTH = StepUpRequest(("mfa", "hw"), 900)


def test_it_comes_by_the_signed_url_and_stays_with_the_attempt() -> None:
    assert StepUpRequest.from_url({"gate_acr_values": "mfa hw", "gate_max_age": "900"}) == BOTH
    assert StepUpRequest.from_url({}) == StepUpRequest()
    for requirements in (
        BOTH,
        StepUpRequest(("mfa",)),
        StepUpRequest(max_age=60),
        StepUpRequest(("mfa",), 60, force_reauthentication=True),
        StepUpRequest(),
    ):
        assert StepUpRequest.from_attempt(requirements.to_attempt()) == requirements
    assert StepUpRequest(force_reauthentication=True).to_attempt() == {}


@pytest.mark.parametrize("age", ["-1", "1.5", "1e3", "²", "900 ", "x"])
def test_invalid_time_is_refused(age: str) -> None:
    with pytest.raises(BadRequest):
        StepUpRequest.from_url({"gate_max_age": age})


@pytest.mark.parametrize(
    ("requirements", "prompt", "params"),
    [
        (BOTH, "", {"acr_values": "mfa hw", "max_age": "900"}),
        (StepUpRequest(max_age=60, force_reauthentication=True), "", {"max_age": "60", "prompt": "login"}),
        (StepUpRequest(max_age=60, force_reauthentication=True), "consent", {"max_age": "60", "prompt": "consent login"}),
        (StepUpRequest(("mfa",), force_reauthentication=True), "login", {"acr_values": "mfa", "prompt": "login"}),
        (StepUpRequest(("mfa",), force_reauthentication=True), "none", {"acr_values": "mfa", "prompt": "login"}),
        (StepUpRequest(("mfa",)), "consent", {"acr_values": "mfa"}),
        (StepUpRequest(), "consent", {}),
    ],
)
def test_setting_is_requested_from_provider(requirements: StepUpRequest, prompt: str, params: dict[str, str]) -> None:
    assert requirements.request_params({"prompt": prompt}, "login") == params


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
def test_auth_time_is_requested_by_name_where_provider_requires_it(usual: str, claims: Any) -> None:
    requirements = StepUpRequest(max_age=60)
    found = requirements.request_params({"claims": usual}, "login", supports_claims_parameter=True)["claims"]
    assert (usual if claims is None else json.dumps(claims, separators=(",", ":"))) == found
    assert "claims" not in requirements.request_params({"claims": usual}, "login")
    assert "claims" not in StepUpRequest(("mfa",)).request_params({}, "login", supports_claims_parameter=True)


@pytest.mark.parametrize(
    ("claims", "issued", "shortfall"),
    [
        ({"acr": "mfa", "auth_time": NOW - 900}, NOW, ""),
        ({"acr": "hw"}, NOW, AUTH_TIME_MISSING),
        ({"acr": "hw", "auth_time": None}, NOW, AUTH_TIME_MISSING),
        ({"acr": "hw", "auth_time": NOW}, NOW - 901, MAX_AGE_EXCEEDED),
        ({"acr": "mfa", "auth_time": NOW - 901}, NOW, MAX_AGE_EXCEEDED),
        ({"acr": "mfa", "auth_time": NOW + 99}, NOW - 901, MAX_AGE_EXCEEDED),
        ({"acr": "mfa", "auth_time": str(NOW)}, NOW, AUTH_TIME_MISSING),
        ({"acr": "mfa", "auth_time": True}, NOW, AUTH_TIME_MISSING),
        ({"acr": "pwd", "auth_time": NOW}, NOW, ACR_NOT_MET),
        ({"acr": ["mfa"]}, NOW, ACR_NOT_MET),
        ({"acr": "mfa hw"}, NOW, ACR_NOT_MET),
        ({}, NOW, ACR_NOT_MET),
    ],
)
def test_the_answer_is_held_against_it(claims: dict[str, Any], issued: float, shortfall: str) -> None:
    assert BOTH.unmet_requirement(claims, issued, NOW) == shortfall
    assert StepUpRequest().unmet_requirement(claims, issued, NOW) == ""
