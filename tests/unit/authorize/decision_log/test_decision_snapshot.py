"""Is enough written down to decide again, and nothing that is a secret?"""

import json
from typing import Any

import pytest

from authorize.decision_log.decision_snapshot import (
    MAX_PATH_LENGTH,
    bounded,
    identity_from_snapshot,
    missing_inputs,
    parse_request_snapshot,
    referenced_inputs,
    snapshot_identity,
    snapshot_request,
)
from authorize.policy.decision import decide
from authorize.policy.decision_text import remedies, trace_rows_with_decisive, user_message
from authorize.policy.identity import GrantPeriod
from authorize.policy.policy_request import ClientCertificate
from foundation.claim_values import ListedValues, NullValues, PartialValues, UnescapedValues
from tests.unit.authorize.builders import NOW, make_route, request, table, user

ROUTE = make_route(
    policy=[
        {"allow": {"and": [{"claim/team": "a"}, {"http_header/X-Env": "prod"}, {"source_ip": "10.0.0.0/8"}]}},
        {"deny": {"http_header/X-Api-Key": "s3cret"}},
    ],
    allowed_idp_claims={"level": [3]},
)
HEADERS = ((b"x-env", b"prod"), (b"x-api-key", b"s3cret"), (b"cookie", b"_gate=abc"), (b"authorization", b"Bearer abc"))
ANN = user(claims={"team": ("a",), "level": (1,), "phone": ("555-0199",)}, group_ids=frozenset({"eng"}))


def recorded(incoming, identity, route=ROUTE):
    looked = referenced_inputs([route])
    facts = {"request": snapshot_request(bounded(incoming, looked), looked), "identity": snapshot_identity(identity, looked)}
    return json.loads(json.dumps(facts))


def test_inputs_of_rules_are_found() -> None:
    looked = referenced_inputs([ROUTE])
    assert (looked.headers, looked.claims) == ({b"x-env", b"x-api-key"}, {"team", "level"})


def test_no_secret_is_written_down() -> None:
    written = json.dumps(recorded(request("/a?token=q5", headers=HEADERS), ANN))
    assert '"captured_headers"' not in written
    for secret in ("prod", "s3cret", "abc", "q5", "555-0199", "Bearer"):
        assert secret not in written
    written = json.dumps(recorded(request("/a", headers=((b"x-env", b"stage"), (b"x-api-key", b"0ther"))), ANN))
    assert ("stage" in written, "0ther" in written) == (True, False)


@pytest.mark.parametrize(
    "rule", ["k3y", {"in": ["other", "k3y"]}, {"starts_with": "k3"}, {"contains": "3"}, {"matches": "k.y"}, {"not_is": "k3y"}]
)
def test_snapshot_omits_values_that_rules_compare(rule: Any) -> None:
    route = make_route(policy=[{"allow": {"http_header/X-Door": rule}}])
    incoming = request("/a", headers=((b"x-door", b"k3y"),))
    decision = decide(incoming, ANN, table(route), NOW)
    text = json.dumps([recorded(incoming, ANN, route), trace_rows_with_decisive(decision), user_message(decision), remedies(decision)])
    assert "k3y" not in text
    assert "http_header/x-door" in missing_inputs(route, recorded(incoming, ANN, route)["request"], None)


def test_only_headers_that_rules_look_at_wait_in_memory() -> None:
    looked = referenced_inputs([ROUTE])
    assert dict(bounded(request(headers=HEADERS), looked).headers) == {b"x-env": b"prod", b"x-api-key": b"s3cret"}


def test_recorded_inputs_reproduce_the_decision() -> None:
    rules = [{"claim/team": "a"}, {"http_header/X-Env": {"not_is": "test"}}, {"source_ip": "10.0.0.0/8"}]
    route = make_route(policy=[{"allow": {"and": rules}}])
    incoming = request("/a", headers=HEADERS, source_ip="10.1.1.1")
    facts = recorded(incoming, ANN, route)
    again = decide(parse_request_snapshot(facts["request"]), identity_from_snapshot(facts["identity"]), table(route), NOW)
    assert decide(incoming, ANN, table(route), NOW).is_allowed
    assert again.is_allowed
    assert missing_inputs(route, facts["request"], facts["identity"]) == ""


@pytest.mark.parametrize("values", [("a",), ListedValues(), PartialValues(("a",)), PartialValues(), NullValues(), UnescapedValues()])
@pytest.mark.parametrize("operand", [{"exists": True}, {"exists": False}, "a", {"not_is": "b"}])
def test_incomparable_values_are_the_same_in_a_replay(values: tuple[str, ...], operand: object) -> None:
    route, identity = make_route(policy=[{"allow": {"claim/x": operand}}]), user(claims={"x": values})
    facts = json.loads(json.dumps(recorded(request(), identity, route)))
    again = decide(parse_request_snapshot(facts["request"]), identity_from_snapshot(facts["identity"]), table(route), NOW)
    then = decide(request(), identity, table(route), NOW)
    assert [(step.rule, step.value) for step in again.trace] == [(step.rule, step.value) for step in then.trace]


def test_incomplete_groups_are_unknown_in_replay() -> None:
    again = identity_from_snapshot(recorded(request(), user(groups_incomplete=True))["identity"])
    assert again is not None
    assert again.groups_incomplete


def test_unrecorded_input_is_named() -> None:
    facts = recorded(request(headers=HEADERS), ANN)
    assert missing_inputs(ROUTE, facts["request"], facts["identity"]) == "http_header/x-api-key, http_header/x-env"
    other = make_route(policy=[{"deny": {"or": [{"claim/phone": "1"}, {"http_header/X-Other": "1"}]}}])
    assert missing_inputs(other, facts["request"], facts["identity"]) == "http_header/x-other, claim/phone"


@pytest.mark.parametrize(
    ("incoming", "identity", "what"),
    [
        (request("/" + "a" * MAX_PATH_LENGTH), ANN, "the path"),
        (request(), user(group_ids=frozenset(map(str, range(1001)))), "the list of groups"),
        (request(headers=((b"x-env", b"a" * 2000),)), ANN, "http_header/x-env"),
        (request(), user(claims={"team": ("a" * 2000,)}), "claim/team"),
    ],
)
def test_overlong_value_is_omitted_and_named(incoming, identity, what: str) -> None:
    facts = recorded(incoming, identity)
    assert what in missing_inputs(ROUTE, facts["request"], facts["identity"])
    assert len(json.dumps(facts)) < 20_000


def test_certificate_retains_compared_values_without_its_bytes() -> None:
    certificate = ClientCertificate("ab", "cd", "CN=ann", chain=(b"DER",), verification_errors={"authority": ""})
    facts = recorded(request(client_certificate=certificate), ANN)
    again = parse_request_snapshot(facts["request"]).client_certificate
    assert again == ClientCertificate("ab", "cd", "CN=ann", verification_errors={"authority": ""})


def test_temporary_access_is_written_down_where_a_rule_looks_at_it() -> None:
    route = make_route(policy=[{"allow": {"granted": True}}])
    holder = user(grants={route.grant_key: GrantPeriod(NOW - 60, NOW + 60)})
    facts = recorded(request(), holder, route)
    again = identity_from_snapshot(facts["identity"])
    assert again is not None
    assert again.grants == holder.grants
    assert decide(parse_request_snapshot(facts["request"]), again, table(route), NOW).is_allowed
    assert not decide(parse_request_snapshot(facts["request"]), again, table(route), NOW + 60).is_allowed
    assert missing_inputs(route, facts["request"], facts["identity"]) == ""
    assert "grants" not in recorded(request(), holder, ROUTE)["identity"]


def test_missing_grants_are_reported_in_replay() -> None:
    route = make_route(policy=[{"allow": {"granted": True}}])
    assert missing_inputs(route, recorded(request(), ANN, route)["request"], recorded(request(), ANN, route)["identity"]) == ""
    before = recorded(request(), ANN)
    assert missing_inputs(route, before["request"], before["identity"]) == "granted"
