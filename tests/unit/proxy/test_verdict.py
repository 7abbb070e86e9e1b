"""Values derived from a verdict: headers of a denial, and the session of a decision."""

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import NO_ROUTE
from proxy.verdict import Deny, RequestDecision
from tests.support.asgi import incoming_from
from tests.unit.authorize.builders import NOW, user


def test_refusal_headers_declare_authentication_scheme_and_retry_time():
    refusal = Deny(401, "No.", challenge='Gate realm="a"', retry_after=5, extra_headers=[(b"vary", b"Origin")])
    assert refusal.headers == [(b"www-authenticate", b'Gate realm="a"'), (b"retry-after", b"5"), (b"vary", b"Origin")]
    assert Deny(404, "Nothing.").headers == []


@pytest.mark.parametrize("identity", [None, user()])
def test_authorized_request_names_the_user_s_session(identity):
    decision = RequestDecision(incoming_from("https://a.example/"), AuthorizationResult(NO_ROUTE, identity), NOW, 0)
    assert decision.session_id == (identity.session_id if identity else "")
    assert decision.sources is (identity.sources if identity else None)
