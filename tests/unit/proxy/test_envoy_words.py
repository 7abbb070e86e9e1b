"""What an Envoy's client is answered, and what goes with its request; tests/unit/authorize/rpc/test_ext_authz.py asks as an Envoy does."""

import pytest

from authorize.client import Check
from authorize.policy.decision import judge
from authorize.rpc.ext_authz import Asked
from gateproject.errors import BadRequest, BrokerError
from proxy.envoy_words import Words
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, make_route, request, table, user


@pytest.fixture
def words(tmp_path) -> Words:
    return Words(make_options(tmp_path), lambda origin: False, lambda: NOW)


def asked(*headers: tuple[bytes, bytes], **facts) -> Asked:
    return Asked(request(**facts), headers, (), "192.0.2.1", "")


def check(**facts) -> Check:
    (route,) = table(make_route(cors_allow_preflight=True, allow_any_authenticated_user=True)).routes()
    decision = judge(request(**facts), user(), route, NOW)
    return Check(decision, user())


@pytest.mark.parametrize(("error", "status"), [(BadRequest("the path is odd"), 400), (BrokerError("away"), 503)])
async def test_an_error_has_the_status_of_whose_it_is(words, error, status):
    answer = await words.explain(asked(), error)
    assert answer.status == status
    assert b"away" not in answer.body


@pytest.mark.parametrize("name", [b"X-Gate-Jwt-Assertion", b"x_gate_claim_email", b"X.Gate.Claim.Groups", b"xgatejwtassertion"])
def test_every_spelling_of_an_identity_header_is_taken_away(words, name):
    assert words.cleaned(asked((name, b"forged")), check())[1] == [name]


def test_cookies_of_others_stay_and_ours_go(words):
    replaced, removed = words.cleaned(asked((b"cookie", b"a=b; _gate=x; _gate_csrf=y; c=d")), check())
    assert (replaced, removed) == ({b"cookie": b"a=b; c=d"}, [])
    assert words.cleaned(asked((b"cookie", b"_gate=x")), check()) == ({}, [b"cookie"])
    assert words.cleaned(asked((b"authorization", b"Bearer theirs")), check()) == ({b"authorization": b"Bearer theirs"}, [])


def test_no_credential_goes_with_a_preflight(words):
    preflight = {"method": "OPTIONS", "origin": b"https://o.example", "access_control_request_method": b"PUT"}
    told = asked((b"cookie", b"a=b"), (b"authorization", b"Bearer theirs"), **preflight)
    assert words.cleaned(told, check(**preflight)) == ({}, [b"authorization", b"cookie"])
