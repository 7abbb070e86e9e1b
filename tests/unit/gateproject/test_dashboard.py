"""Does the dashboard count what the tables hold, and is what they hold no markup?"""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils import timezone

from authorize.models import LoggedDecision
from databroker.models import DirectoryRun, Session, User
from gateproject import dashboard
from gateproject.dashboard import DAY, Dashboard, dashboard_of

pytestmark = pytest.mark.usefixtures("database")

LOADED = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def shown() -> Dashboard:
    configuration = SimpleNamespace(loaded=LOADED, problems=())
    request: Any = SimpleNamespace(scope={"gate": SimpleNamespace(configuration=configuration)})
    return dashboard_of(request)


def decided(outcome: str, route: str = "wiki", times: int = 1) -> None:
    rows = [LoggedDecision(at=LOADED, url="https://a.example", outcome=outcome, route=route, seconds=0, facts="{}") for _ in range(times)]
    LoggedDecision.objects.bulk_create(rows)


def test_empty_tables_have_a_dashboard():
    it = shown()
    assert (it.sessions, it.signed_in, it.directory, it.decisions, it.outcomes, it.refused) == (0, 0, None, 0, (), ())


def test_it_counts_sessions_people_of_a_day_and_the_last_reading():
    now = timezone.now()
    Session.rows.bulk_create([Session(id="unknown"), Session(id="live", expires=now + DAY), Session(id="over", expires=now - DAY)])
    for days in (0, 2):
        User.rows.bulk_create([User(id=f"oidc/{days}", last_sign_in=timezone.now() - timedelta(days=days))])
        DirectoryRun.rows.bulk_create([DirectoryRun(id=str(days), began=LOADED - timedelta(days=days))])
    it = shown()
    assert (it.sessions, it.signed_in, it.directory and it.directory.pk) == (2, 1, "0")


def test_bars_count_by_outcome_and_only_refusals_by_route():
    decided("allowed", times=4)
    decided("forbidden", times=2)
    decided("forbidden", "shop & more")
    decided("sign in")
    it = shown()
    assert [(bar.words, bar.number, bar.percent) for bar in it.outcomes] == [("allowed", 4, 100), ("forbidden", 3, 75), ("sign in", 1, 25)]
    assert [(bar.words, bar.number) for bar in it.refused] == [("wiki: forbidden", 2), ("shop & more: forbidden", 1)]
    assert it.refused[1].address.endswith("?outcome=forbidden&q=shop+%26+more")


def test_only_the_latest_decisions_are_counted(monkeypatch):
    monkeypatch.setattr(dashboard, "LATEST", 3)
    decided("forbidden", times=5)
    decided("allowed", times=2)
    assert [(bar.words, bar.number) for bar in shown().outcomes] == [("allowed", 2), ("forbidden", 1)]


def test_markup_in_a_route_s_name_stays_text():
    decided("forbidden", '"><script>alert(1)</script>')
    assert "<script" not in render_to_string("admin/bars.html", {"bars": shown().refused})
