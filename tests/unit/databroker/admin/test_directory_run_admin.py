"""Admin history of directory syncs: bounded, read-only, and it shows the age of the data."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote

from config.settings.identity_providers import PLACEHOLDERS
from databroker.admin import directory_run_admin
from databroker.admin.directory_run_admin import DirectoryRunAdmin, OutcomeFilter, describe_last_success
from databroker.models import DirectoryRun
from databroker.projection import rows
from databroker.records import DIRECTORY_RUN, DirectoryRunRecord, Record
from tests.support.admin import AdminPages, visible_text
from tests.support.options import make_options

NOON = 1_800_000_000.0

pytestmark = pytest.mark.usefixtures("database")


def wrote(started_at: float, **facts: object) -> None:
    run = DirectoryRunRecord(f"{started_at:017.6f}", "okta at corp.okta.com", "schedule", started_at, **facts)  # type: ignore[arg-type]
    batch = rows.RowBatch()
    rows.add_directory_run(batch, run.id, Record(DIRECTORY_RUN, run.id, run.to_data(), 1, started_at))
    rows.write(batch)


def test_a_reading_is_a_row() -> None:
    wrote(NOON, duration_seconds=1.25, users=10, groups=2, added=3, changed=4, removed=5, requests=6, error="no")
    (row,) = DirectoryRun.objects.all()
    assert (row.started_at, row.users, row.groups, row.added, row.changed, row.removed, row.requests, row.error) == (
        datetime.fromtimestamp(NOON, UTC),
        *(10, 2, 3, 4, 5, 6, "no"),
    )
    rows.write(rows.RowBatch(deletes=[(DirectoryRun, row.pk)]))
    assert not DirectoryRun.objects.exists()


def test_data_age_is_that_of_the_last_valid_sync_at_that_time() -> None:
    assert describe_last_success(NOON) == ""
    wrote(NOON - 100)
    wrote(NOON - 50, error="failed")
    wrote(NOON + 50)
    assert describe_last_success(NOON) == "2027-01-15T07:58:20Z, 0:01:40 before"


def test_syncs_of_several_directories_are_distinguished(tmp_path: Path) -> None:
    for id, started_at in (("corp/1", NOON - 100), ("partner/1", NOON - 20), ("partner/0", NOON - 50)):
        DirectoryRun.rows.bulk_create([DirectoryRun(id=id, started_at=datetime.fromtimestamp(started_at, UTC))])
    ages = {prefix: describe_last_success(NOON, prefix).partition(", ")[2] for prefix in ("corp/", "partner/", "other/")}
    assert ages == {"corp/": "0:01:40 before", "partner/": "0:00:20 before", "other/": ""}
    (tmp_path / "people.yaml").write_text("users: []")
    keys = {"provider": "oidc", "client_id": "gate", "client_secret": "secret", "domains": [], "directory_file": "people.yaml"}
    entries = [{"id": id, "url": f"https://{id}.example", **keys} for id in ("corp", "partner")]
    page = AdminPages(
        directory_run_admin.register, options=make_options(tmp_path, **dict.fromkeys(PLACEHOLDERS), identity_providers=entries)
    )
    assert "All corp partner" in visible_text(page.get("databroker/directoryrun/"))
    assert "1 directory sync" in visible_text(page.get("databroker/directoryrun/", provider="corp"))


def test_the_admin_shows_and_changes_nothing() -> None:
    wrote(NOON, duration_seconds=1.25)
    wrote(NOON + 1, error="away")
    page = DirectoryRunAdmin(DirectoryRun, AdminSite())
    valid, bad = DirectoryRun.objects.order_by("pk")
    assert (page.when(valid), page.duration(valid), page.outcome(valid), page.outcome(bad)) == (
        '<time datetime="2027-01-15T08:00:00+00:00" data-form="exact">15 Jan, 08:00:00 UTC</time>',
        "1.2 s",
        "read",
        "away",
    )
    assert not page.has_add_permission(None)  # type: ignore[arg-type]
    assert not page.has_change_permission(None)  # type: ignore[arg-type]
    assert not page.has_delete_permission(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("choice", "errors"), [("good", [""]), ("bad", ["away"])])
def test_failures_can_be_looked_for(choice: str, errors: list[str]) -> None:
    wrote(NOON)
    wrote(NOON + 1, error="away")
    chosen = OutcomeFilter(None, {"outcome": [choice]}, DirectoryRun, DirectoryRunAdmin)  # type: ignore[arg-type]
    assert [run.error for run in chosen.queryset(None, DirectoryRun.objects.all())] == errors  # type: ignore[arg-type]


def test_empty_list_explains_other_group_sources(tmp_path: Path) -> None:
    text = visible_text(AdminPages(directory_run_admin.register, options=make_options(tmp_path)).get("databroker/directoryrun/"))
    assert "0 directory syncs" in text
    assert "directory_file and SCIM have none" in text


def test_sync_page_displays_start_time() -> None:
    wrote(NOON, duration_seconds=1.25)
    (run,) = DirectoryRun.objects.all()
    page = AdminPages(directory_run_admin.register).get(f"databroker/directoryrun/{quote(run.pk)}/change/")
    assert '<time datetime="2027-01-15T08:00:00+00:00" data-form="full">15 Jan 2027, 08:00:00 UTC</time>' in page.content.decode()
    assert "Started: 15 Jan 2027" in visible_text(page)
