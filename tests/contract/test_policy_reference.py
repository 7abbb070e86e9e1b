"""Compare decisions with a second reading of docs/reference/policy-language.md: GATE_POLICY_CASES (20,000 in `make attack`)."""

import base64
import hashlib
import os
from collections import Counter

from authorize.identity.identity_builder import IdentityInputs, build_identity
from authorize.policy.decision import evaluate_route
from authorize.policy.identity import GrantPeriod, Identity
from authorize.policy.policy_request import ClientCertificate, PolicyRequest
from config.routes.route import Route
from databroker.records import DirectoryUser, SessionRecord, UserRecord
from tests.support.policy_cases import Cases
from tests.support.policy_reference import ABSENT, Asked, Person, outcome
from tests.support.providers import a_provider
from tests.unit.authorize.builders import make_route, table

CASES = int(os.environ.get("GATE_POLICY_CASES", "2000"))
PROVIDER = a_provider(groups_claim="groups")
SEED = int(os.environ.get("GATE_POLICY_SEED", "7"))


def test_the_decision_is_what_the_documentation_says() -> None:
    cases, outcomes, wrong = Cases(SEED), Counter(), []
    asked_of_each = 4
    for _ in range(CASES // asked_of_each):
        written = cases.route()
        route = table(make_route(**written)).routes()[0]
        for _ in range(asked_of_each):
            asked = cases.asked()
            expected = outcome(written, asked)
            found = evaluate_route(request_of(asked), identity_for(asked.person, route.route, asked.now), route, asked.now).outcome.value
            outcomes[expected] += 1
            if found != expected:
                wrong.append((written, asked, expected, found))
    assert wrong[:1] == []
    # Cases that all end alike would show nothing.
    assert min(outcomes[each] for each in ("allowed", "sign in", "forbidden")) > CASES // 20, outcomes


def request_of(asked: Asked) -> PolicyRequest:
    certificate = None
    if asked.certificate is not None:
        certificate = ClientCertificate(
            hashlib.sha256(asked.certificate).hexdigest(), base64.b64encode(hashlib.sha256(asked.public_key).digest()).decode(), "CN=x"
        )
    return PolicyRequest(
        asked.method,
        "app.example.com",
        None,
        asked.path,
        origin="https://o.example" if asked.is_preflight else "",
        access_control_request_method="PUT" if asked.is_preflight else "",
        source_ip=asked.ip,
        headers=[(name.encode(), value.encode()) for name, value in asked.headers],
        client_certificate=certificate,
    )


def identity_for(person: Person | None, route: Route, now: float) -> Identity | None:
    if person is None:
        return None
    said = person.claims if person.groups_claim is ABSENT else {**person.claims, "groups": person.groups_claim}
    user_id = f"{person.provider}/{person.subject}"
    session = SessionRecord("s", user_id, person.subject, person.provider, person.issued, 9e9, said)
    facts = IdentityInputs(
        session,
        UserRecord(user_id, person.email, True),
        DirectoryUser(user_id, group_ids=tuple(person.groups)),
        matchable_group_names=frozenset(person.group_names),
        access={route.grant_key: GrantPeriod(now - 1, now + 1)} if person.is_granted else {},
    )
    return build_identity(facts, PROVIDER)
