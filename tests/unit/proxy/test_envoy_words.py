"""What an Envoy's client is answered, and what goes with its request; tests/unit/authorize/rpc/test_ext_authz.py asks as an Envoy does."""

from pathlib import Path

import pytest

from authorize.client import Check
from authorize.policy.decision import NO_ROUTE, judge
from authorize.rpc.ext_authz import Asked
from authorize.service import AuthorizeService
from databroker.client import LocalBroker
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from gateproject.crypto.signing_key import SigningKey
from gateproject.errors import BadRequest, BrokerError
from proxy.dataplane import Carrying
from proxy.envoy_words import Words
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, make_route, request, table, user


def make_words(directory: Path, carrying: Carrying | None = None) -> Words:
    options = make_options(directory, policy=[{"from": "https://app.example.com", "to": "http://up", "allow_any_authenticated_user": True}])
    replica = Replica(LocalBroker(MemoryStore()))
    return Words(options, AuthorizeService(options, replica, SigningKey.from_options(options)), carrying, lambda: NOW)


@pytest.fixture
def words(tmp_path) -> Words:
    return make_words(tmp_path)


def asked(*headers: tuple[bytes, bytes], **facts) -> Asked:
    return Asked(request(**facts), headers, (), "192.0.2.1", "", 0.0)


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


def test_what_the_envoy_itself_says_of_the_client_stays_and_what_the_client_said_before_it_goes(words):
    told = asked(
        (b"x-forwarded-for", b"10.0.0.1, 192.0.2.1"), (b"x-forwarded-proto", b"https"), (b"x-request-id", b"1"), (b"forwarded", b"x")
    )
    assert words.cleaned(told, check()) == ({b"x-forwarded-for": b"192.0.2.1"}, [b"forwarded"])
    assert words.cleaned(asked((b"x_request_id", b"1"), (b"x-envoy-x", b"1")), check())[1] == [b"x-envoy-x", b"x_request_id"]


def test_our_own_pages_and_foreign_websockets_are_not_for_the_application(words):
    with pytest.raises(BadRequest, match="instead of asking"):
        words.require_carriable(Asked(request("/.gate/callback/"), (), (), "192.0.2.1", "", 0.0), check())
    with pytest.raises(BadRequest, match="no websockets"):
        words.require_carriable(asked((b"sec-websocket-key", b"x")), check())
    words.require_carriable(asked(), check())


def test_a_session_was_seen_where_its_request_may_pass(tmp_path):
    seen = []
    words = make_words(tmp_path, Carrying(saw=lambda *fact: seen.append(fact)))
    story = words.story(asked(host="app.example.com"))
    words.tell(story, 503, "away")
    story.check = check()
    words.tell(story, 403, "")
    story.check = Check(NO_ROUTE, user())
    words.tell(story, 200, "")  # as clients of gRPC are told that they are refused
    assert seen == []
    story.check = check()
    words.tell(story, 200, "")
    assert seen == [(user().session_id, NOW, "app.example.com")]
