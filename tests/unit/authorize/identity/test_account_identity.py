"""Who a service account is to rules, which never take it for a person."""

from authorize.identity.account_identity import identity_of
from databroker.records import ServiceAccountRecord
from tests.unit.authorize.builders import user
from tests.unit.authorize.policy.written_policies import answer

NOW = 1500.0


def test_rules_can_not_take_an_account_for_a_person_nor_a_person_for_an_account() -> None:
    account = identity_of(ServiceAccountRecord("ann", ("sales",), 1000.0, 99_000.0, ""), NOW)
    person = user("ann@corp.com", subject="service_account/ann")

    def holds(entry: str, who) -> bool:
        return answer({"user": entry}, who) is True

    assert holds("service_account/ann", account)
    assert not holds("service_account/ann", person)
    assert holds("oidc/service_account/ann", person)
    for entry in ("ann", "ann@corp.com", "oidc/ann", "service_account/bob", "service_account/an"):
        assert not holds(entry, account)
    assert answer({"groups": "sales"}, account)
    assert not answer({"domain": "corp.com"}, account)
