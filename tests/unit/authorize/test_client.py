"""What a check and an attestation hold before anybody has put anything in."""

from authorize.client import Attestation, Check
from authorize.policy.decision import NO_ROUTE


def test_nothing_is_told_unless_it_is_said():
    assert Check(NO_ROUTE, None).identity_headers == ()
    assert Attestation(None).assertion == ""
