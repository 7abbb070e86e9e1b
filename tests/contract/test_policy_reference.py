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
from tests.support.policy_reference import ABSENT, ReferenceRequest, ReferenceUser, outcome
from tests.support.providers import a_provider
from tests.unit.authorize.builders import make_route, table

CASES = int(os.environ.get("GATE_POLICY_CASES", "2000"))
PROVIDER = a_provider(groups_claim="groups")
SEED = int(os.environ.get("GATE_POLICY_SEED", "7"))


def test_decision_matches_documentation() -> None:
    cases, outcomes, invalid = Cases(SEED), Counter(), []
    requested_of_each = 4
    for _ in range(CASES // requested_of_each):
        written = cases.route()
        route = table(make_route(**written)).routes()[0]
        for _ in range(requested_of_each):
            requested = cases.request()
            expected = outcome(written, requested)
            found = evaluate_route(
                request_of(requested), identity_for(requested.user, route.route, requested.now), route, requested.now
            ).outcome.value
            outcomes[expected] += 1
            if found != expected:
                invalid.append((written, requested, expected, found))
    assert invalid[:1] == []
    # Cases that all end alike would show nothing.
    assert min(outcomes[each] for each in ("allowed", "sign in", "forbidden")) > CASES // 20, outcomes


def request_of(requested: ReferenceRequest) -> PolicyRequest:
    certificate = None
    if requested.certificate is not None:
        certificate = ClientCertificate(
            hashlib.sha256(requested.certificate).hexdigest(),
            base64.b64encode(hashlib.sha256(requested.public_key).digest()).decode(),
            "CN=x",
        )
    return PolicyRequest(
        requested.method,
        "app.example.com",
        None,
        requested.path,
        origin="https://o.example" if requested.is_preflight else "",
        access_control_request_method="PUT" if requested.is_preflight else "",
        source_ip=requested.ip,
        headers=[(name.encode(), value.encode()) for name, value in requested.headers],
        client_certificate=certificate,
    )


def identity_for(user: ReferenceUser | None, route: Route, now: float) -> Identity | None:
    if user is None:
        return None
    output = user.claims if user.groups_claim is ABSENT else {**user.claims, "groups": user.groups_claim}
    user_id = f"{user.provider}/{user.subject}"
    session = SessionRecord("s", user_id, user.subject, user.provider, user.issued, 9e9, output)
    facts = IdentityInputs(
        session,
        UserRecord(user_id, user.email, True),
        DirectoryUser(user_id, group_ids=tuple(user.groups)),
        matchable_group_names=frozenset(user.group_names),
        access={route.grant_key: GrantPeriod(now - 1, now + 1)} if user.is_granted else {},
    )
    return build_identity(facts, PROVIDER)
