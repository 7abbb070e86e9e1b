"""Values derived from a verdict: headers of a denial, and the session of a decision."""

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import NO_ROUTE
from proxy.verdict import Deny, RequestDecision
from tests.support.asgi import incoming_from
from tests.unit.authorize.builders import NOW, user


def test_the_headers_of_a_refusal_say_how_to_prove_who_one_is_and_when_to_come_again():
    refusal = Deny(401, "No.", challenge='Gate realm="a"', retry_after=5, extra_headers=[(b"vary", b"Origin")])
    assert refusal.headers == [(b"www-authenticate", b'Gate realm="a"'), (b"retry-after", b"5"), (b"vary", b"Origin")]
    assert Deny(404, "Nothing.").headers == []


@pytest.mark.parametrize("identity", [None, user()])
def test_a_judged_request_names_the_session_of_who_asked(identity):
    judged = RequestDecision(incoming_from("https://a.example/"), AuthorizationResult(NO_ROUTE, identity), NOW, 0)
    assert judged.session_id == (identity.session_id if identity else "")
    assert judged.sources is (identity.sources if identity else None)
