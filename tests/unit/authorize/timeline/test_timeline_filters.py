"""Timeline filters find the matching decisions, each by its index."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from authorize.models import LoggedDecision
from authorize.timeline import timeline_filters
from authorize.timeline.timeline_filters import TimelineFilters, search
from config.options import Options
from tests.support.options import make_options
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import POLICY, log_decision

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)


@pytest.fixture
def options(database: None, tmp_path: Path) -> Options:
    return make_options(tmp_path, policy=POLICY)


def decided(name: str, at: datetime = NOON, **columns: str) -> None:
    values = {"display_name": f"{name}@corp.com", "user_id": f"oidc/{name}", "outcome": "allowed", "url": "app.example.com/", **columns}
    LoggedDecision.objects.create(decided_at=at, duration_seconds=0, snapshot="{}", **values)


def found(options: Options, **query: str) -> list[str]:
    rows = TimelineFilters.from_query(query, BERLIN, options.policy).rows().order_by("-decided_at", "-id")
    return [row.display_name.partition("@")[0] for row in rows]


def plan(options: Options, **query: str) -> str:
    return TimelineFilters.from_query(query, BERLIN, options.policy).rows().order_by("-decided_at", "-id").explain()


def test_filters_by_name_id_and_part(options: Options) -> None:
    for name in ("ann", "anna", "bob"):
        decided(name)
    assert [found(options, user=wanted) for wanted in ("ann@corp.com", "oidc/ann", "NN", "carol")] == [
        ["ann"],
        ["ann"],
        ["anna", "ann"],
        [],
    ]
    assert "decision_by_name (display_name=?)" in plan(options, user="ann@corp.com")
    assert "decision_by_user (user_id=?)" in plan(options, user="oidc/ann")


def test_a_route_is_found_by_its_name_of_now_by_its_id_and_by_a_part_of_an_older_name(options: Options) -> None:
    _, wages = options.policy
    decided("ann", route_id=wages.id, route_name="Salaries")
    decided("bob", route_id="0123456789abcdef", route_name="An old route")
    decided("carol")
    for wanted in ("Wages", wages.id, "salar"):
        assert found(options, route=wanted) == ["ann"]
    assert found(options, route_id=wages.id) == ["ann"]
    assert found(options, route="old") == found(options, route="0123456789abcdef") == ["bob"]
    assert "decision_by_route (route_id=?)" in plan(options, route="Wages")
    assert TimelineFilters.from_query({"route_id": wages.id}, BERLIN, options.policy).selected_route_name() == "Wages"


def test_outcome_is_found_by_index_and_invalid_index_is_a_problem(options: Options) -> None:
    decided("ann")
    decided("bob", outcome="forbidden")
    assert found(options, outcome="forbidden") == ["bob"]
    assert "decision_by_outcome (outcome=?)" in plan(options, outcome="forbidden")
    filters = TimelineFilters.from_query({"outcome": "perhaps"}, BERLIN, options.policy)
    assert list(filters.rows()) == []
    (problem,) = filters.problems
    assert problem.startswith("perhaps is no outcome")


def test_outcome_of_shadow_rules_is_found(options: Options) -> None:
    decided("ann", shadow_outcome="forbidden")
    decided("bob")
    assert found(options, shadow_outcome="forbidden") == ["ann"]


def test_client_is_found_by_a_part_of_its_id(options: Options) -> None:
    decided("ann", client_id="https://claude.ai/client.json")
    decided("bob", client_id="build-agent")
    decided("eve")
    for client, names in (("claude.ai", ["ann"]), ("build-agent", ["bob"]), ("nothing", [])):
        assert found(options, client=client) == names


def test_times_without_a_zone_are_those_of_the_reader(options: Options) -> None:
    decided("ann", NOON)
    decided("bob", NOON + timedelta(hours=1))
    assert found(options, **{"from": "2027-01-15T13:00", "to": "2027-01-15T14:00"}) == ["ann"]
    assert found(options, **{"from": "2027-01-15T13:00+00:00"}) == ["bob"]
    assert "(decided_at>? AND decided_at<?)" in plan(options, **{"from": "2027-01-15T13:00", "to": "2027-01-15T14:00"})


def test_a_span_ends_now(options: Options) -> None:
    decided("ann", timezone.now() - timedelta(minutes=30))
    decided("bob", timezone.now() - timedelta(hours=2))
    assert [found(options, within=span) for span in ("5m", "1h", "1d", "ever")] == [[], ["ann"], ["ann", "bob"], ["ann", "bob"]]


@pytest.mark.parametrize("query", [{"from": "soon"}, {"to": "2027-13-01"}, {"q": "after:soon"}])
def test_invalid_filter_matches_nothing(options: Options, query: dict[str, str]) -> None:
    decided("ann")
    filters = TimelineFilters.from_query(query, BERLIN, options.policy)
    assert (list(filters.rows()), len(filters.problems)) == ([], 1)


def test_filters_narrow_together(options: Options) -> None:
    for name in ("ann", "bob"):
        decided(name)
        decided(name, outcome="forbidden", route_name="Wages")
    assert found(options, user="oidc/ann", outcome="forbidden", q="wages") == ["ann"]
    assert found(options, user="oidc/ann", outcome="forbidden", q="chat") == []


@pytest.fixture
def logged(database: None, tmp_path: Path) -> None:
    log_decision(tmp_path, "a1", user("bob@corp.com", subject="2"))
    log_decision(tmp_path, "b2", user(), "/wages")
    log_decision(tmp_path, "ab" * 16, user(), "/named")
    log_decision(tmp_path, "ef" * 16, user(), "/by/" + "cd" * 16)


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    ("text", "found", "index"),
    [
        ("AB" * 16, ["/named"], "(request_id=?)"),
        (f"{'ab' * 16} bob", [], "(request_id=?)"),
        ("cd" * 16, ["/by/" + "cd" * 16], ""),
        ("192.0.2.1 wages cd", ["/by/" + "cd" * 16], ""),
        ("192.0.2.10", [], ""),
        ("bob@corp.com", ["/a"], "(display_name=?)"),
        ("ob@corp.com", ["/a"], ""),
        ("BOB a1", ["/a"], ""),
    ],
)
def test_word_is_searched_by_its_form(text: str, found: list[str], index: str) -> None:
    rows = search(LoggedDecision.objects.all(), text)
    assert [row.url.removeprefix("app.example.com") for row in rows] == found
    assert index in rows.explain()


@pytest.mark.usefixtures("logged")
def test_newest_entries_of_large_log_are_scanned_for_unindexed_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_filters, "MAX_SCANNED", 2)
    for number, row in enumerate(LoggedDecision.objects.order_by("pk")):
        LoggedDecision.objects.filter(pk=row.pk).update(decided_at=row.decided_at.replace(second=number))
    rows = LoggedDecision.objects.all()
    assert [row.request_id for row in search(rows, "corp").order_by("pk")] == ["b2", "ab" * 16, "ef" * 16]
    assert [row.request_id for row in search(rows, "bob@corp.com")] == ["a1"], "an index has it, however old it is"
    assert search(rows, "ob@corp.com").count() == 0


@pytest.mark.usefixtures("logged")
def test_excess_terms_are_ignored() -> None:
    assert search(LoggedDecision.objects.all(), "corp " * 8 + "nothing " * 1000).count() == 4


@pytest.mark.usefixtures("logged")
def test_a_moment_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="before:soon: 'soon' must be a time"):
        search(LoggedDecision.objects.all(), "bob before:soon")
