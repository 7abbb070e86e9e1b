"""Read-only admin: staff view rows, no user edits them, and their history is the audit log."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.core.cache import cache
from django.test import RequestFactory

from databroker.admin import group_admin, session_admin
from databroker.admin.read_only_admin import CACHE_ABOVE, CachedPaginator, time_column
from databroker.models import Group, Session, User
from databroker.records import SESSION
from databroker.store.memory import MemoryStore
from tests.support.admin import AdminPages, visible_text
from tests.support.database import row
from tests.support.options import make_options

pytestmark = pytest.mark.usefixtures("database")

LISTS = ["databroker/session/", "databroker/user/", "databroker/group/", "databroker/auditentry/"]


@pytest.fixture
def pages(store: MemoryStore, tmp_path: Path) -> AdminPages:
    return AdminPages(session_admin.register, group_admin.register, broker=store, options=make_options(tmp_path))


@pytest.fixture
def people(store: MemoryStore) -> None:
    row(Group, id="g1", name="engineering", email="eng@a.org")
    row(User, id="oidc/alice", email="alice@a.org", name="Alice")
    row(User, id="oidc/bob", email="bob@a.org")
    for id, user in (("s1", "oidc/alice"), ("s2", "oidc/alice"), ("s3", "oidc/nobody"), ("s4", None)):
        row(Session, id=id, user_id=user)
        async_to_sync(store.put)(SESSION, id, {"user_id": user})


def test_nothing_can_be_added_or_changed(pages, people):
    for model in ("session", "user", "group"):
        assert pages.get(f"databroker/{model}/add/").status_code == 403
    for page in ("databroker/session/s1/", f"databroker/user/{quote('oidc/alice')}/", "databroker/group/g1/"):
        assert pages.post(f"{page}change/", email="x@x.org", name="x").status_code == 403
    for page in (f"databroker/user/{quote('oidc/alice')}/", "databroker/group/g1/"):
        assert pages.post(f"{page}delete/", post="yes").status_code == 403
    assert (Session.objects.count(), User.objects.count(), Group.objects.count()) == (4, 2, 1)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("user__id__exact=oidc/alice", 200),
        ("user__groups__id__exact=g1", 400),
        ("id__regex=^(.%2B)%2B~$", 400),
        ("id__iregex=a", 400),
        ("id__icontains=a", 400),
        ("user__email__regex=a", 400),
    ],
)
def test_a_list_is_narrowed_as_its_own_links_do_it_and_by_no_pattern(pages, people, query, status):
    """SQLite evaluates regular expressions in Python."""
    assert pages.get(f"databroker/session/?{query}").status_code == status


def test_non_staff_user_sees_nothing(store, people):
    pages = AdminPages(session_admin.register, group_admin.register, is_staff=False, broker=store)
    for page in LISTS:
        assert pages.get(page).status_code == 302
        for action in ("end_sessions", "end_all"):
            pages.post(page, action=action, _selected_action=["s1", "oidc/alice"])
    assert async_to_sync(store.get)(SESSION, "s1")


@pytest.mark.parametrize(("is_active", "is_staff"), [(True, False), (False, True), (False, False)])
def test_each_page_requires_staff_regardless_of_its_site(is_active: bool, is_staff: bool) -> None:
    site = AdminSite()
    session_admin.register(site)
    page_request = RequestFactory().get("/")
    page_request.user = SimpleNamespace(is_active=True, is_staff=True)
    assert all(page.has_module_permission(page_request) for page in site._registry.values())
    page_request.user = SimpleNamespace(is_active=is_active, is_staff=is_staff)
    assert not any(page.has_view_permission(page_request) or page.has_module_permission(page_request) for page in site._registry.values())


def test_user_history_is_the_audit_log_about_them(pages, people):
    pages.post("databroker/user/", action="end_all", _selected_action=["oidc/bob"])
    pages.post("databroker/user/", action="end_all", _selected_action=["oidc/alice"])
    answer = pages.get(f"databroker/user/{quote('oidc/bob')}/history/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/databroker/auditentry/?object_id=oidc%2Fbob")
    text = visible_text(pages.get("databroker/auditentry/", object_id="oidc/bob"))
    assert "1 entry" in text
    assert "bob@a.org" in text
    assert "alice@a.org" not in text


@dataclass
class Rows:
    """As much of a query set as the paginator meets."""

    rows: int
    query: str
    counted: int = 0

    def count(self) -> int:
        self.counted += 1
        return self.rows


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    cache.clear()


def test_a_large_list_is_counted_once() -> None:
    rows = Rows(CACHE_ABOVE, "SELECT 1")
    assert [CachedPaginator(rows, 50).count for _ in range(3)] == [CACHE_ABOVE] * 3
    assert rows.counted == 1


def test_a_small_list_is_counted_each_time() -> None:
    rows = Rows(CACHE_ABOVE - 1, "SELECT 1")
    assert CachedPaginator(rows, 50).count == CACHE_ABOVE - 1
    rows.rows -= 1
    assert CachedPaginator(rows, 50).count == CACHE_ABOVE - 2


def test_another_search_has_its_own_count() -> None:
    assert CachedPaginator(Rows(CACHE_ABOVE, "SELECT 1"), 50).count == CACHE_ABOVE
    assert CachedPaginator(Rows(3, "SELECT 2"), 50).count == 3


def test_a_column_is_named_and_ordered_as_its_field_and_may_be_empty() -> None:
    column = time_column("last_seen_at", "day")
    assert (column.short_description, column.admin_order_field) == ("last seen", "last_seen_at")
    assert time_column("rotated", description="last new secret").short_description == "last new secret"
    assert ">15 Jan 2027 UTC<" in column(None, SimpleNamespace(last_seen_at=datetime(2027, 1, 15, 8, tzinfo=UTC)))
    assert column(None, SimpleNamespace(last_seen_at=None)) == "-"
