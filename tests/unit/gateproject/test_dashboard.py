"""The dashboard counts the rows of the tables, and escapes their values."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.template.loader import render_to_string
from django.utils import timezone

from authorize.models import LoggedDecision
from databroker.grants.access_request_store import AccessRequest, AccessRequestStore
from databroker.models import DirectoryRun, Session, User
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from foundation.readiness import ComponentStatus, ReadinessReport, degraded
from gateproject import dashboard
from gateproject.dashboard import DAY, Dashboard, build_dashboard
from proxy.upstreams.upstream_errors import UpstreamErrors
from tests.support.options import make_options
from tests.support.providers import a_provider

pytestmark = pytest.mark.usefixtures("database")

LOADED = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class Cluster(SimpleNamespace):
    """Two upstreams, of which one is left out."""

    members = (1, 2)

    def available(self) -> int:
        return 1


def page_text(
    *parts: ComponentStatus,
    broker: Any = None,
    clusters: dict[str, Cluster] | None = None,
    providers: Any = None,
    policy: Any = None,
    upstream_errors: UpstreamErrors | None = None,
) -> Dashboard:
    gate = SimpleNamespace(
        configuration=SimpleNamespace(loaded=LOADED, problems=()),
        readiness=lambda: ReadinessReport(parts),
        broker=broker or MemoryStore(),
        options=SimpleNamespace(policy=policy or list(clusters or {"a": None}), providers=providers or {"oidc": a_provider()}),
        proxy=SimpleNamespace(
            clusters=SimpleNamespace(get=clusters.get if clusters else lambda route: None),
            upstream_errors=upstream_errors or UpstreamErrors(),
        ),
    )
    request: Any = SimpleNamespace(scope={"gate": gate})
    return build_dashboard(request)


def decided(outcome: str, route: str = "wiki", times: int = 1) -> None:
    rows = [
        LoggedDecision(decided_at=LOADED, url="https://a.example", outcome=outcome, route_name=route, duration_seconds=0, snapshot="{}")
        for _ in range(times)
    ]
    LoggedDecision.objects.bulk_create(rows)


def test_empty_tables_have_a_dashboard():
    it = page_text()
    assert (it.sessions, it.signed_in, it.directories, it.decisions, it.outcomes, it.refused) == (0, 0, [], 0, (), ())


def test_it_counts_sessions_daily_users_and_the_last_sync():
    now = timezone.now()
    Session.rows.bulk_create([Session(id="unknown"), Session(id="live", expires_at=now + DAY), Session(id="over", expires_at=now - DAY)])
    for days in (0, 2):
        User.rows.bulk_create([User(id=f"oidc/{days}", last_sign_in_at=timezone.now() - timedelta(days=days))])
        DirectoryRun.rows.bulk_create([DirectoryRun(id=str(days), started_at=LOADED - timedelta(days=days))])
    it = page_text()
    assert (it.sessions, it.signed_in, [run.pk for run in it.directories]) == (2, 1, ["0"])


def test_last_sync_of_each_directory_is_displayed_with_provider():
    for id, days, error in (("corp/2", 2, ""), ("corp/1", 1, "away"), ("partner/3", 3, ""), ("gone/1", 0, "")):
        DirectoryRun.rows.bulk_create([DirectoryRun(id=id, started_at=LOADED - timedelta(days=days), error=error)])
    providers = {id: a_provider(id, is_entry=True) for id in ("corp", "partner", "new")}
    found = page_text(providers=providers).directories
    assert [(run.provider, run.pk, run.error) for run in found] == [("corp", "corp/1", "away"), ("partner", "partner/3", "")]


def test_bars_count_by_outcome_and_only_refusals_by_route():
    decided("allowed", times=4)
    decided("forbidden", times=2)
    decided("forbidden", "shop & more")
    decided("sign in")
    it = page_text()
    assert [(bar.label, bar.number, bar.percent) for bar in it.outcomes] == [("allowed", 4, 100), ("forbidden", 3, 75), ("sign in", 1, 25)]
    assert [(bar.label, bar.number) for bar in it.refused] == [("wiki: forbidden", 2), ("shop & more: forbidden", 1)]
    assert it.refused[1].address.endswith("?outcome=forbidden&route=shop+%26+more")


def test_only_the_latest_decisions_are_counted(monkeypatch):
    monkeypatch.setattr(dashboard, "DECISION_SAMPLE", 3)
    decided("forbidden", times=5)
    decided("allowed", times=2)
    assert [(bar.label, bar.number) for bar in page_text().outcomes] == [("allowed", 2), ("forbidden", 1)]


def test_markup_in_a_route_s_name_stays_text():
    decided("forbidden", '"><script>alert(1)</script>')
    assert "<script" not in render_to_string("admin/bars.html", {"bars": page_text().refused})


def test_only_items_needing_attention_are_displayed() -> None:
    troubled = degraded("certificates", "that of app.example.com expires at 2026-03-04T12:00:00Z")
    assert page_text(ComponentStatus("store"), troubled).troubles == (troubled,)


def test_upstreams_that_several_routes_share_are_counted_once() -> None:
    one, other = Cluster(), Cluster()
    it = page_text(clusters={"a": one, "b": one, "c": other})
    assert (it.upstreams, it.upstreams_away) == (4, 2)
    assert (page_text().upstreams, page_text().upstreams_away) == (0, 0)


def test_application_with_failed_upstream_is_named_until_it_responds(tmp_path: Path) -> None:
    routes = [
        {"from": f"https://{name}.example.com", "to": f"http://127.0.0.1:{port}", "allow_any_authenticated_user": True, "title": name}
        for name, port in (("broken", 1), ("well", 2))
    ]
    errors = UpstreamErrors()
    errors.record_timeout(("127.0.0.1", 1))
    found: dict[str, Any] = {"policy": make_options(tmp_path, policy=routes).policy, "upstream_errors": errors}
    assert page_text(**found).failing == (("broken", "timed out"),)
    errors.record_success(("127.0.0.1", 1))
    assert page_text(**found).failing == ()


def test_unconfigured_directory_is_distinguished_from_unread_one() -> None:
    assert not page_text().has_directory
    assert page_text(providers={"okta": a_provider("okta", has_group_records=True)}).has_directory
    assert page_text(providers={"oidc": a_provider(directory_file=Path("people.yaml"))}).has_directory


def test_requests_for_access_are_counted_up_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = MemoryStore()
    for number in range(3):
        access_request = AccessRequest(
            f"n{number}", f"oidc/{number}", "https://idp.example.com", "ann", "key", "wages", "why", 60.0, time.time()
        )
        async_to_sync(AccessRequestStore(broker).add)(access_request)
    assert page_text(broker=broker).waiting == 3
    monkeypatch.setattr(dashboard, "MAX_WAITING", 2)
    assert page_text(broker=broker).waiting == 2


def test_without_broker_page_does_not_claim_empty_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*arguments: object) -> None:
        raise BrokerError("away")

    broker = MemoryStore()
    monkeypatch.setattr(broker, "page", away)
    assert page_text(broker=broker).waiting is None


def test_the_chart_has_a_column_for_each_part_of_the_time() -> None:
    decided("allowed", times=3)
    decided("forbidden")
    late = LOADED + timedelta(hours=24)
    LoggedDecision.objects.create(decided_at=late, url="https://a.example", outcome="allowed", duration_seconds=0, snapshot="{}")
    columns = page_text().columns
    assert len(columns) == dashboard.CHART_COLUMNS
    assert (columns[0].total, columns[0].refused, columns[0].top, columns[0].others) == (60, 15, 0, 45)
    assert (columns[-1].total, columns[-1].refused, columns[-1].x) == (15, 0, 230)
    assert {column.total for column in columns[1:-1]} == {0}
