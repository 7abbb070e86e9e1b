"""Is a decision written as it was made, and is the table bounded in size and age?"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from authorize.authorizer import ShadowOutcome
from authorize.decision_log.decision_log import DecisionLogEntry, DecisionLogSettings
from authorize.decision_log.persistence import MAX_TRACE_STEPS, PRUNE_BATCH_SIZE, build_row, write_entries
from authorize.identity.identity_loader import IdentitySourceRecords
from authorize.models import LoggedDecision
from authorize.policy.decision import decide
from databroker.records import SESSION, USER, Record
from foundation.errors import BrokerError
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, make_route, request, table, user

ROUTE = make_route(name="Wages", policy=[{"allow": {"groups": ["payroll"]}}], allowed_users=["boss@corp.com"])
BOB = user("bob@corp.com", subject="2", group_ids=frozenset({"sales"}))
SOURCES = IdentitySourceRecords(Record(SESSION, "s1", {}, 7, 1000.0), Record(USER, "oidc/2", {}, 5, 900.0), None)


@pytest.fixture
def keeping(tmp_path: Path):
    return lambda **settings: DecisionLogSettings.from_options(make_options(tmp_path, **settings), "c0ffee")


def log_entry(number: int = 0, at: float = NOW, route=ROUTE, identity=BOB, **facts: Any) -> DecisionLogEntry:
    incoming = request("/a")
    decision = decide(incoming, identity, table(route), NOW)
    return DecisionLogEntry(f"r{number}", incoming, decision, identity, 0.002, "192.0.2.1", decided_at=at, sources=SOURCES, **facts)


def test_row_has_user_url_outcome_reason_and_data_age(keeping) -> None:
    row = LoggedDecision(**build_row(log_entry(shadow_outcome=ShadowOutcome(None, "allowed", "x")), keeping()))
    assert (row.request_id, row.user_id, row.display_name, row.url, row.route_name) == (
        "r0",
        "oidc/2",
        "bob@corp.com",
        "app.example.com/a",
        "Wages",
    )
    assert (row.outcome, row.data_version, row.configuration, row.shadow_outcome) == ("forbidden", 7, "c0ffee", "allowed")
    facts = json.loads(row.snapshot)
    assert facts["modified_at"] == {"session": 1000.0, "user": 900.0}
    assert [rule["actual"] for rule in facts["rules"][:2]] == ["bob@corp.com, oidc/2, 2", "sales"]
    assert facts["remedies"] == ["allowed_users: one of boss@corp.com", "policy[0].allow: policy[0].allow.groups: one of payroll"]
    assert facts["identity"]["group_ids"] == ["sales"]


def test_unstorable_name_does_not_lose_other_decisions(database: None, keeping) -> None:
    odd = user("", subject="2", name="a\0b\ud800")
    assert build_row(log_entry(identity=odd), keeping())["display_name"] == "ab? (oidc/2)"
    write_entries([(log_entry(1, identity=odd), keeping()), (log_entry(2), keeping())])
    assert LoggedDecision.objects.count() == 2


def test_undecided_request_has_reason(keeping) -> None:
    row = LoggedDecision(
        **build_row(
            DecisionLogEntry("r1", request("//a"), None, None, 0.0, "", decided_at=NOW, failure="bad request", error="two readings"),
            keeping(),
        )
    )
    assert (row.outcome, row.reason, row.user_id, row.data_version) == ("bad request", "two readings", "", None)


def test_a_long_trace_is_cut_at_its_beginning(keeping) -> None:
    route = make_route(policy=[{"allow": {"or": [{"groups": f"g{number}"} for number in range(MAX_TRACE_STEPS + 50)]}}])
    facts = json.loads(build_row(log_entry(route=route), keeping())["snapshot"])
    assert len(facts["rules"]) == MAX_TRACE_STEPS
    assert facts["rules"][-1]["rule"] == "policy[0].allow"


def test_long_list_is_truncated(keeping) -> None:
    route = make_route(allowed_users=[f"user{number}@corp.com" for number in range(10_000)])
    assert len(build_row(log_entry(route=route), keeping())["snapshot"]) < 5000


def test_the_oldest_go_first(database: None, keeping) -> None:
    write_entries([(log_entry(number), keeping(decision_log_size=3)) for number in range(5)])
    assert list(LoggedDecision.objects.order_by("pk").values_list("request_id", flat=True)) == ["r2", "r3", "r4"]


def test_prunes_decisions_older_than_age(database: None, keeping) -> None:
    old = NOW - timedelta(hours=2).total_seconds()
    write_entries([(log_entry(0, old), keeping(decision_log_age="1h")), (log_entry(1), keeping(decision_log_age="1h"))])
    assert list(LoggedDecision.objects.values_list("request_id", flat=True)) == ["r1"]


def test_smaller_size_is_reached_in_small_batches(database: None, keeping) -> None:
    one, settings = log_entry(), keeping()
    write_entries([(one, settings)] * (PRUNE_BATCH_SIZE + 10))
    write_entries([(one, keeping(decision_log_size=1))])
    assert LoggedDecision.objects.count() == 11


def test_a_database_that_is_away_is_a_broker_error(database: None, keeping) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE authorize_loggeddecision RENAME TO away")
    try:
        with pytest.raises(BrokerError):
            write_entries([(log_entry(), keeping())])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO authorize_loggeddecision")
