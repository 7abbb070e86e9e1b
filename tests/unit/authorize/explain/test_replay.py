"""Does a replay say who would newly be refused or let in, and what it can't say?

For a page it stops where it should, with the newest first, and leaves the processor to requests.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from authorize.explain import replay as replaying
from authorize.explain.replay import (
    NEWLY_ALLOWED,
    NEWLY_DENIED,
    NEWLY_PROMPTED,
    BoundedReplay,
    ReplayInProgress,
    ReplayReport,
    replay,
    replay_newest,
)
from authorize.models import LoggedDecision
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.policy.reasons import Reason
from authorize.policy.route_table import RouteTable
from authorize.route_settings import route_table
from tests.support.options import make_options
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import APP, POLICY, log_decision

ANN, BOB = user(claims={"team": ("a",)}), user("bob@corp.com", subject="2")


SEARCH, DELETE = (McpMessage("tools/call", tool=name) for name in ("search", "delete_repo"))


def replayed(directory: Path, policy: list[dict[str, Any]]) -> ReplayReport:
    return replay(LoggedDecision.objects.order_by("pk"), route_table(make_options(directory, policy=policy)))


def kinds(report: ReplayReport) -> list[tuple[str, str, int]]:
    return sorted((change.kind, change.user, change.requests) for change in report.changes.values())


def test_the_same_policy_changes_nothing(database: None, tmp_path: Path) -> None:
    for number, (identity, target) in enumerate([(ANN, "/a"), (BOB, "/a"), (None, "/open"), (None, "/a")]):
        log_decision(tmp_path, f"r{number}", identity, target)
    report = replayed(tmp_path, POLICY)
    assert (report.replayed, report.changes, report.not_replayed) == (4, {}, {})


def test_replay_reports_changes_by_route_and_user(database: None, tmp_path: Path) -> None:
    for number, (identity, target) in enumerate([(ANN, "/a"), (ANN, "/b"), (BOB, "/a"), (None, "/open")]):
        log_decision(tmp_path, f"r{number}", identity, target)
    report = replayed(tmp_path, [{**APP, "allowed_users": ["bob@corp.com"], "name": "Wages"}])
    assert kinds(report) == [(NEWLY_ALLOWED, "bob@corp.com", 1), (NEWLY_DENIED, "ann@corp.com", 2), (NEWLY_PROMPTED, "anonymous", 1)]
    refused = next(change for change in report.changes.values() if change.kind == NEWLY_DENIED)
    assert (refused.route, refused.last_request_id) == ("Wages", "r1")
    assert Reason.USER_NOT_LISTED.value in refused.reason


def test_removed_route_is_newly_denied(database: None, tmp_path: Path) -> None:
    log_decision(tmp_path, "r1", ANN)
    log_decision(tmp_path, "r2", None)
    assert kinds(replayed(tmp_path, [{**APP, "path": "/other"}])) == [(NEWLY_DENIED, "ann@corp.com", 1), (NEWLY_DENIED, "anonymous", 1)]


def test_unrecorded_input_is_not_guessed(database: None, tmp_path: Path) -> None:
    log_decision(tmp_path, "r1", ANN)
    report = replayed(tmp_path, [{**APP, "policy": [{"allow": {"claim/team": "a"}}]}])
    assert (report.replayed, kinds(report)) == (0, [])
    assert report.not_replayed == {"not logged: claim/team": 1}


@pytest.mark.parametrize("facts", ["", "[]", "{}", '{"request": {}}', '{"request": {"host": "a"}, "identity": {}}', "null"])
def test_unreadable_entry_is_counted_and_blocks_no_replay(database: None, tmp_path: Path, facts: str) -> None:
    log_decision(tmp_path, "r1", ANN)
    LoggedDecision.objects.update(snapshot=facts)
    log_decision(tmp_path, "r2", ANN)
    report = replayed(tmp_path, POLICY)
    assert (report.replayed, list(report.not_replayed.values())) == (1, [1])
    assert "logged facts" in next(iter(report.not_replayed))


def test_inputs_of_the_previous_policy_can_be_replayed(database: None, tmp_path: Path) -> None:
    by_team = [{**APP, "policy": [{"allow": {"claim/team": "a"}}]}]
    log_decision(tmp_path, "r1", ANN, policy=by_team)
    assert kinds(replayed(tmp_path, [{**APP, "policy": [{"allow": {"claim/team": "b"}}]}])) == [(NEWLY_DENIED, "ann@corp.com", 1)]


def test_the_time_is_that_of_the_request(database: None, tmp_path: Path) -> None:
    log_decision(tmp_path, "r1", ANN)
    on_that_day = [{**APP, "policy": [{"allow": {"date": {"is": "2027-01-15"}}}]}]
    assert kinds(replayed(tmp_path, on_that_day)) == []


def test_an_answer_for_want_of_data_is_not_replayed(database: None, tmp_path: Path) -> None:
    log_decision(tmp_path, "r1", ANN)
    LoggedDecision.objects.update(outcome="unavailable")
    assert replayed(tmp_path, POLICY).not_replayed.total() == 1


def test_recorded_call_is_replayed(database: None, tmp_path: Path) -> None:
    """A call of a tool has a new outcome under a policy that limits tools; one without a message can't be replayed under it."""
    mcp = {**APP, "mcp": {}, "allowed_users": ["ann@corp.com"]}
    for number, message in enumerate([SEARCH, DELETE, NO_MESSAGE, None]):
        row = log_decision(tmp_path, f"r{number}", ANN, policy=[mcp], method="POST", mcp=message)
        assert (row.mcp_method, row.mcp_name) == ((message.method, message.name) if message else ("", ""))
    report = replayed(tmp_path, [{**mcp, "policy": [{"deny": {"mcp_tool": {"not_in": ["search"]}}}]}])
    assert (report.replayed, kinds(report)) == (3, [(NEWLY_DENIED, "ann@corp.com", 1)])
    assert next(iter(report.changes.values())).last_request_id == "r1"
    assert report.not_replayed == {"not logged: the MCP message": 1}


def test_recorded_client_is_replayed(database: None, tmp_path: Path) -> None:
    """A client and its scopes have a new outcome under a policy that limits them; a browser has none."""
    mcp = {**APP, "mcp": {"scopes": {"read": "Read", "write": "Write"}}, "allowed_users": ["ann@corp.com"]}
    clients = [("", ()), ("build-agent", ("read",)), ("build-agent", ("read", "write")), ("https://claude.ai/x", ("write",))]
    for number, (client_id, scopes) in enumerate(clients):
        identity = user(client_id=client_id, scopes=frozenset(scopes))
        assert log_decision(tmp_path, f"r{number}", identity, policy=[mcp]).client_id == client_id
    for rule, denied in (({"scope": {"not_in": ["write"]}}, 1), ({"client": "claude.ai"}, 1), ({"client": {"not_is": "claude.ai"}}, 2)):
        report = replayed(tmp_path, [{**mcp, "policy": [{"deny": rule}]}])
        assert kinds(report) == [(NEWLY_DENIED, "ann@corp.com", denied)]


def test_long_message_is_not_replayed(database: None, tmp_path: Path) -> None:
    for number, uris in enumerate([("a:b",) * 21, ("a:" + "x" * 3000,), ("a:" + "x" * 2000,)]):
        log_decision(tmp_path, f"r{number}", ANN, mcp=McpMessage("subscriptions/listen", resources=uris))
    report = replayed(tmp_path, POLICY)
    assert (report.replayed, list(report.not_replayed.values())) == (1, [2])


@pytest.fixture
def table(database: None, tmp_path: Path) -> RouteTable:
    for number in range(5):
        log_decision(tmp_path, f"r{number}", BOB)
    return route_table(make_options(tmp_path, policy=[{**APP, "allow_any_authenticated_user": True, "name": "Wages"}]))


def newest_replayed(table: RouteTable, ticks: Iterator[float] | None = None, rests: list[float] | None = None) -> BoundedReplay:
    clock = iter([0.0] * 1000) if ticks is None else ticks
    return replay_newest(LoggedDecision.objects.all(), table, lambda: next(clock), (rests if rests is not None else []).append)


def test_all_are_made_again_where_there_are_few(table: RouteTable) -> None:
    done = newest_replayed(table)
    (change,) = done.report.changes.values()
    assert (done.examined, done.stop_reason, done.report.replayed) == (5, "", 5)
    assert (change.kind, change.user, change.requests, change.last_request_id) == (NEWLY_ALLOWED, "bob@corp.com", 5, "r4")


def test_of_many_the_newest_are_made_again(table: RouteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "MAX_DECISIONS", 3)
    done = newest_replayed(table)
    assert (done.examined, done.report.replayed) == (3, 3)
    assert "newest 3 decisions" in done.stop_reason
    monkeypatch.setattr(replaying, "MAX_DECISIONS", 5)
    assert newest_replayed(table).stop_reason == ""


def test_after_its_time_it_stops_and_rests_before_that(table: RouteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "BATCH_SIZE", 2)
    rests: list[float] = []
    done = newest_replayed(table, (3.0 * tick for tick in count()), rests)
    assert done.examined == 4
    assert "after 5 seconds" in done.stop_reason
    assert rests == [replaying.PAUSE_SECONDS] * 2


def test_one_replay_at_a_time_after_any_outcome(table: RouteTable) -> None:
    def another(_: float) -> None:
        newest_replayed(table)

    rows = LoggedDecision.objects.all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replaying, "BATCH_SIZE", 1)
        with pytest.raises(ReplayInProgress):
            replay_newest(rows, table, lambda: 0.0, another)
    assert newest_replayed(table).examined == 5


def test_nothing_is_made_of_nothing(table: RouteTable) -> None:
    LoggedDecision.objects.all().delete()
    assert newest_replayed(table).examined == 0
