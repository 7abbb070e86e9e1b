"""Do the admin's pages show what there is, change nothing, and end sessions in the broker?"""

import csv
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from databroker.admin import group_admin, session_admin
from databroker.admin.session_admin import SessionAdmin
from databroker.audit_log import AuditAction
from databroker.claims import ProviderClaims
from databroker.models import AuditEntry, Group, Membership, Session, User
from databroker.projection.rows import RowBatch, add_session, add_user, write
from databroker.records import SESSION, USER, Record
from databroker.store.database import DatabaseStore
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.admin import AdminPages, apps_on_sign_in_page, visible_text
from tests.support.database import in_database, row
from tests.support.options import make_options
from tests.support.several_providers import several
from tests.support.signed_in import put_session

pytestmark = pytest.mark.usefixtures("database")

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
SEEN = datetime(2026, 3, 4, 13, 30, tzinfo=UTC)
LISTS = ["databroker/session/", "databroker/user/", "databroker/group/", "databroker/auditentry/"]


class AwayStore(MemoryStore):
    async def delete(self, type: str, id: str) -> bool:
        raise BrokerError("away")


@pytest.fixture
def pages(store: MemoryStore, tmp_path: Path) -> AdminPages:
    return AdminPages(session_admin.register, group_admin.register, broker=store, options=make_options(tmp_path))


@pytest.fixture
def people(store: MemoryStore) -> None:
    row(Group, id="g1", name="engineering", email="eng@a.org")
    row(User, id="oidc/alice", email="alice@a.org", name="Alice", last_sign_in_at=NOON)
    row(User, id="oidc/bob", email="bob@a.org")
    row(Membership, user_id="oidc/alice", group_id="g1")
    row(Membership, user_id="oidc/alice", group_id="a-group-without-a-record")
    for id, user in (("s1", "oidc/alice"), ("s2", "oidc/alice"), ("s3", "oidc/nobody"), ("s4", None)):
        row(Session, id=id, user_id=user, started_at=NOON, expires_at=NOON, client_address="192.0.2.1", user_agent="Browser/1.0")
        async_to_sync(put_session)(store, id, {"user_id": user})
    Session.rows.filter(pk="s1").update(last_seen_at=SEEN, last_host="app.a.org:8443")


def test_sessions_of_agents_are_filtered_displayed_and_ended(pages, people, store):
    agent = {"client_id": "https://claude.ai/oauth/client.json", "resource": "https://tools.a.org/mcp", "scopes": "tools:read"}
    row(Session, id="s5", user_id="oidc/alice", kind="agent", started_at=NOON, expires_at=NOON, last_seen_at=SEEN, **agent)
    async_to_sync(put_session)(store, "s5", {"user_id": "oidc/alice"})
    for query, count in (
        ({"kind__exact": "agent"}, "1 session"),
        ({"kind__exact": "browser"}, "4 sessions"),
        ({"q": "claude"}, "1 session"),
    ):
        assert count in visible_text(pages.get("databroker/session/", **query))
    assert all(text in visible_text(pages.get("databroker/session/")) for text in ("agent", "https://claude.ai/oauth/client.j", "13:30"))
    assert all(text in visible_text(pages.get("databroker/session/s5/change/")) for text in agent.values())
    assert "1 session ended." in visible_text(pages.post("databroker/session/", action="end_sessions", _selected_action=["s5"]))
    assert async_to_sync(store.get)(SESSION, "s5") is None


@pytest.mark.parametrize("page", ["", "databroker/", *LISTS])
def test_every_page_renders_when_there_is_nothing(pages, page):
    assert pages.get(page).status_code == 200


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("", ["Data broker", "Sessions", "Users", "Groups", "Audit log"]),
        ("databroker/session/", ["alice@a.org", "oidc/nobody", "unknown", "192.0.2.1", "Browser/1.0", "4 Mar, 12:00", "4 sessions"]),
        ("databroker/session/", ["Last seen", "4 Mar, 13:30", "Last host", "app.a.org:8443"]),
        ("databroker/user/", ["oidc/alice", "alice@a.org", "Alice", "bob@a.org", "2 users"]),
        ("databroker/group/", ["engineering", "eng@a.org", "1 group"]),
        ("databroker/session/s1/change/", ["alice@a.org", "Browser/1.0", "Last seen: 4 Mar 2026, 13:30:00 UTC", "app.a.org:8443"]),
        ("databroker/session/s3/change/", ["oidc/nobody"]),
        ("databroker/session/s4/change/", ["s4"]),
        (f"databroker/user/{quote('oidc/alice')}/change/", ["engineering", "since 4 Mar 2026, 12:00 UTC from 192.0.2.1"]),
        (f"databroker/user/{quote('oidc/bob')}/change/", ["bob@a.org"]),
        ("databroker/group/g1/change/", ["eng@a.org", "alice@a.org"]),
    ],
)
def test_every_page_displays_its_objects(pages, people, page, expected):
    response = pages.get(page)
    assert response.status_code == 200
    assert [text for text in expected if text not in visible_text(response)] == []


@pytest.mark.parametrize(
    ("page", "query", "found"),
    [
        ("databroker/session/", {"q": "alice@a"}, "2 sessions"),
        ("databroker/session/", {"q": "192.0.2.1"}, "4 sessions"),
        ("databroker/session/", {"user__id__exact": "oidc/alice"}, "2 sessions"),
        ("databroker/session/", {"q": "nothing"}, "0 sessions"),
        ("databroker/session/", {"q": "app.a.org"}, "1 session"),
        ("databroker/user/", {"q": "engineering"}, "1 user"),
        ("databroker/user/", {"groups__id__exact": "g1"}, "1 user"),
        ("databroker/group/", {"members__id__exact": "oidc/alice"}, "1 group"),
        ("databroker/group/", {"q": "eng@"}, "1 group"),
    ],
)
def test_lists_are_searched_and_filtered(pages, people, page, query, found):
    response = pages.get(page, **query)
    assert response.status_code == 200
    assert found in visible_text(response)


def test_a_long_list_of_members_ends_in_a_link_to_all_of_them(pages, people):
    User.rows.bulk_create([User(id=f"oidc/{number:03}", email=f"{number:03}@a.org") for number in range(150)])
    Membership.rows.bulk_create([Membership(user_id=f"oidc/{number:03}", group_id="g1") for number in range(150)])
    page = pages.get("databroker/group/g1/change/").content.decode()
    assert page.count("@a.org</a>") == 100
    assert 'href="/admin/databroker/user/?groups__id__exact=g1"' in page
    assert "151 users" in visible_text(pages.get("databroker/user/", groups__id__exact="g1"))


def test_user_input_cannot_become_markup(pages):
    evil = "<script>alert(1)</script>"
    row(Group, id="g", name=evil)
    row(User, id="oidc/e", name=evil, email=evil)
    row(Membership, user_id="oidc/e", group_id="g")
    row(Session, id="s", user_id="oidc/e", user_agent=evil, client_address=evil, last_host=evil)
    AuditEntry.objects.create(actor=evil, object_repr=evil, action=evil, client_address=evil)
    for page in (*LISTS, "databroker/session/s/change/", f"databroker/user/{quote('oidc/e')}/change/", "databroker/group/g/change/"):
        content = pages.get(page).content.decode()
        assert "alert(1)" in content
        assert evil not in content


def test_admin_sign_in_page_discloses_nothing():
    assert apps_on_sign_in_page(session_admin.register) == []


def test_deleting_a_session_ends_it_in_the_broker(pages, people, store):
    question = visible_text(pages.get("databroker/session/s1/delete/"))
    assert "End this session?" in question
    assert "alice@a.org, from 192.0.2.1" in question
    pages.post("databroker/session/s1/delete/", post="yes")
    assert async_to_sync(store.get)(SESSION, "s1") is None
    assert async_to_sync(store.get)(SESSION, "s2")
    assert not Session.objects.filter(pk="s1").exists()
    assert AuditEntry.objects.get().object_id == "s1"


@pytest.mark.parametrize("form", [("databroker/session/s1/delete/", {"post": "yes"}), ("databroker/session/", {"action": "end_sessions"})])
def test_a_session_ends_in_a_store_that_is_in_the_same_database(form):
    """A transaction of the page would keep the store from writing until it gives up."""
    page, fields = form
    store = DatabaseStore(deadline=1.0)
    row(Session, id="s1")
    async_to_sync(store.put)(SESSION, "s1", {"user_id": "oidc/alice"})
    response = AdminPages(session_admin.register, group_admin.register, broker=store).post(page, _selected_action=["s1"], **fields)
    assert "away" not in visible_text(response)
    assert async_to_sync(store.get)(SESSION, "s1") is None
    async_to_sync(store.close)()


def test_the_selected_sessions_end_in_the_broker(pages, people, store):
    response = pages.post("databroker/session/", action="end_sessions", _selected_action=["s1", "s3"])
    assert "2 sessions ended." in visible_text(response)
    assert [record.id for record in async_to_sync(store.page)(SESSION, "", 9)] == ["s2", "s4"]
    assert sorted(Session.objects.values_list("pk", flat=True)) == ["s2", "s4"]
    assert sorted(AuditEntry.objects.values_list("object_id", flat=True)) == ["s1", "s3"]


async def test_a_session_ends_also_from_within_the_running_loop(pages, people, store):
    await pages.apost("databroker/session/", action="end_sessions", _selected_action=["s1"])
    assert await store.get(SESSION, "s1") is None
    assert not await in_database(Session.objects.filter(pk="s1").exists)


@pytest.mark.parametrize(
    ("page", "actions"),
    [
        ("databroker/session/", {"end_sessions", "end_all"}),
        ("databroker/user/", {"end_all"}),
        ("databroker/group/", set()),
        ("databroker/auditentry/", {"as_csv", "as_json"}),
    ],
)
def test_actions_end_sessions_and_nothing_else(pages, people, page, actions):
    pages.post("databroker/session/", action="end_sessions", _selected_action=["s4"])
    offered = re.findall(r'<option value="([a-z_]+)">[^<]+</option>', pages.get(page).content.decode())
    assert set(offered) == actions
    assert len(offered) == len(actions)


def test_all_sessions_of_a_user_end_from_user_list(pages, people, store):
    async_to_sync(put_session)(store, "without-a-row", {"user_id": "oidc/alice"})
    response = pages.post("databroker/user/", action="end_all", _selected_action=["oidc/alice", "oidc/bob"])
    assert "3 sessions ended." in visible_text(response)
    assert [record.id for record in async_to_sync(store.page)(SESSION, "", 9)] == ["s3", "s4"]
    assert sorted(Session.objects.values_list("pk", flat=True)) == ["s3", "s4"]


def test_all_sessions_of_users_of_selected_sessions_end(pages, people, store):
    response = pages.post("databroker/session/", action="end_all", _selected_action=["s1", "s4"])
    assert "3 sessions ended." in visible_text(response)
    assert [record.id for record in async_to_sync(store.page)(SESSION, "", 9)] == ["s3"]


def test_sessions_are_sorted_by_when_they_were_last_seen(pages, people):
    Session.rows.filter(pk="s3").update(last_seen_at=NOON)
    column = str(SessionAdmin.list_display.index("seen") + 1)
    content = pages.get("databroker/session/", o=f"-{column}").content.decode()
    assert [id for id in re.findall(r"session/(s\d)/change/", content) if id in ("s1", "s3")] == ["s1", "s3"]


def test_audit_log_records_actor_action_and_target(pages, people):
    # An address that only the admin's account has identifies no user, because single sign-on stores the user's id in the session.
    get_user_model().objects.filter(username="ann").update(email="boss@a.org")
    pages.post("databroker/session/", action="end_sessions", _selected_action=["s1"])
    pages.post("databroker/session/s2/delete/", post="yes")
    pages.post("databroker/user/", action="end_all", _selected_action=["oidc/bob"])
    text = visible_text(pages.get("databroker/auditentry/"))
    assert "3 entries" in text
    for expected in (f"{AuditAction.END_SESSION} alice@a.org, from 192.0.2.1", f"{AuditAction.END_ALL_SESSIONS} bob@a.org"):
        assert f"ann account with a password ann {expected}" in text
    assert "boss@a.org" not in text
    assert "1 entry" in visible_text(pages.get("databroker/auditentry/", q="bob@a.org"))
    assert "3 entries" in visible_text(pages.get("databroker/auditentry/", q="ann"))
    entry = AuditEntry.objects.get(object_id="s1")
    detail = visible_text(pages.get(f"databroker/auditentry/{entry.pk}/change/"))
    assert [text for text in ("account with a password", AuditAction.END_SESSION, "s1", "192.0.2.9") if text not in detail] == []
    assert "3 entries" in visible_text(pages.get("databroker/auditentry/", q="192.0.2."))


def test_session_is_ended_and_not_deleted_on_its_pages(pages, people):
    question = pages.get("databroker/session/s1/delete/")
    for text in (visible_text(pages.get("databroker/session/s1/change/")), visible_text(question)):
        assert "End this session" in text
        assert "elete" not in text
    assert 'value="End the session"' in question.content.decode()


def test_no_list_of_recent_actions_claims_there_were_none(pages):
    assert "ecent actions" not in visible_text(pages.get(""))


def test_list_heading_names_its_content(pages):
    text = visible_text(pages.get("databroker/session/"))
    assert "Sessions | " in text
    assert "Select session" not in text


def test_audit_log_outlives_its_users(pages, people):
    pages.post("databroker/session/", action="end_sessions", _selected_action=["s1"])
    before = AuditEntry.objects.values().get()
    get_user_model().objects.all().delete()
    Session.rows.all().delete()
    User.rows.all().delete()
    assert AuditEntry.objects.values().get() == before


def test_the_audit_log_is_saved_as_csv(pages, people):
    pages.post("databroker/session/", action="end_sessions", _selected_action=["s1"])
    AuditEntry.objects.create(actor='=HYPERLINK("https://evil.example")', action="x", object_repr='a "b", c')
    entries = [str(pk) for pk in AuditEntry.objects.values_list("pk", flat=True)]
    answer = pages.post("databroker/auditentry/", action="as_csv", _selected_action=entries)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    header, newest, ended = csv.reader(answer.content.decode().splitlines())
    assert header == [
        "occurred_at",
        "actor",
        "actor_kind",
        "actor_id",
        "client_address",
        "action",
        "object_type",
        "object_id",
        "object_repr",
    ]
    assert (newest[1], newest[8]) == ('\'=HYPERLINK("https://evil.example")', 'a "b", c')
    assert ended[1:] == [
        "ann",
        "account with a password",
        "ann",
        "192.0.2.9",
        "ends the session",
        "session",
        "s1",
        "alice@a.org, from 192.0.2.1",
    ]


def test_the_audit_log_is_saved_as_json(pages, people):
    pages.post("databroker/session/", action="end_sessions", _selected_action=["s1"])
    hostile = '=1+1 </script><script>alert(1)</script>\u2028"'
    AuditEntry.objects.create(actor=hostile, action="x", object_repr="not chosen", object_id="chosen")
    AuditEntry.objects.create(actor="eve", action="y")
    entries = [str(pk) for pk in AuditEntry.objects.exclude(actor="eve").values_list("pk", flat=True)]
    answer = pages.post("databroker/auditentry/", action="as_json", _selected_action=entries)
    assert (answer["Content-Type"], answer["Content-Disposition"]) == ("application/json", 'attachment; filename="audit-log.json"')
    newest, ended = json.loads(answer.content)["entries"]
    assert list(newest) == [
        "occurred_at",
        "actor",
        "actor_kind",
        "actor_id",
        "client_address",
        "action",
        "object_type",
        "object_id",
        "object_repr",
    ]
    assert (newest["actor"], newest["object_id"]) == (hostile, "chosen")
    assert [ended[name] for name in ("actor", "client_address", "action", "object_id")] == ["ann", "192.0.2.9", "ends the session", "s1"]


def test_audit_log_is_immutable(pages, people):
    pages.post("databroker/session/", action="end_sessions", _selected_action=["s1"])
    entry = AuditEntry.objects.get()
    before = AuditEntry.objects.values().get()
    for page, form in (("change/", {"object_repr": "x"}), ("delete/", {"post": "yes"})):
        assert pages.post(f"databroker/auditentry/{entry.pk}/{page}", **form).status_code == 403
    assert pages.get("databroker/auditentry/add/").status_code == 403
    pages.post("databroker/auditentry/", action="delete_selected", _selected_action=[str(entry.pk)], post="yes")
    assert AuditEntry.objects.values().get() == before


def test_unavailable_broker_is_reported_and_no_row_is_lost(people):
    pages = AdminPages(session_admin.register, group_admin.register, broker=AwayStore())
    for response in (
        pages.post("databroker/session/", action="end_sessions", _selected_action=["s1"]),
        pages.post("databroker/session/s1/delete/", post="yes"),
    ):
        assert "data broker is unavailable" in visible_text(response)
    assert Session.objects.filter(pk="s1").exists()
    audited = list(AuditEntry.objects.order_by("id").values_list("action", "object_id"))
    assert audited == 2 * [(AuditAction.END_SESSION, "s1"), (AuditAction.END_SESSION.failure, "s1")]


def test_without_broker_page_displays_the_tables(people):
    class Away(AwayStore):
        async def get(self, type: str, id: str) -> None:
            raise BrokerError("away")

    pages = AdminPages(session_admin.register, group_admin.register, broker=Away())
    for page in ("databroker/session/s1/change/", f"databroker/user/{quote('oidc/alice')}/change/"):
        text = visible_text(pages.get(page))
        assert "data broker is unavailable" in text
        assert "alice@a.org" in text


def test_read_only_database_is_reported(pages, people, store):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE databroker_auditentry RENAME TO not_there")
    try:
        response = pages.post("databroker/session/", action="end_sessions", _selected_action=["s1"])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE not_there RENAME TO databroker_auditentry")
    assert "The database is unavailable" in visible_text(response)
    assert async_to_sync(store.get)(SESSION, "s1")


@pytest.mark.parametrize("page", LISTS)
def test_list_needs_no_more_queries_for_fifty_rows_than_for_five(pages, page):
    def questions() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert pages.get(page).status_code == 200
        return len(queries)

    def more(first: int, last: int) -> None:
        for number in range(first, last):
            row(User, id=f"oidc/{number}", email=f"{number}@a.org")
            row(Group, id=f"g{number}")
            row(Session, id=f"s{number}", user_id=f"oidc/{number}")
            AuditEntry.objects.create(actor="ann@a.org", object_repr="x", action="ends the session")

    more(0, 5)
    questions()  # fills Django's caches
    few = questions()
    more(5, 50)
    assert 0 < questions() == few


def test_a_group_keeps_its_size_in_a_filtered_list(pages, people):
    row(Membership, user_id="oidc/bob", group_id="g1")
    page = pages.get("databroker/group/", members__id__exact="oidc/alice").content.decode()
    assert '<td class="field-size">2</td>' in page


def pages_of_several_providers(tmp_path: Path) -> AdminPages:
    """Pages where a partner's provider asserts for eve the address of another provider's user, as her email and name."""
    options = make_options(tmp_path, **several("corp", "partner"))
    rows = RowBatch(ProviderClaims.from_options(options))
    for id, email in (("corp/1", "ceo@corp.example"), ("partner/eve", "ceo@corp.example"), ("partner/bob", "bob@partner.example")):
        add_user(rows, id, Record(USER, id, {"email": email, "name": email}, 1, 0.0), None)
        add_session(rows, f"s-{id}", Record(SESSION, f"s-{id}", {"user_id": id}, 1, 0.0))
    write(rows)
    return AdminPages(session_admin.register, group_admin.register, broker=MemoryStore(), options=options)


def test_address_of_unauthorized_provider_is_marked(tmp_path):
    pages = pages_of_several_providers(tmp_path)
    people = pages.get("databroker/user/").content.decode()
    marked = "<s>ceo@corp.example</s>, not verified"
    # Of whose it is, the row has it as their address, their name, and beside the box to choose them.
    assert (people.count(marked), people.count("ceo@corp.example")) == (1, 4)
    assert marked in pages.get("databroker/user/partner_2Feve/change/").content.decode()
    assert marked not in pages.get("databroker/user/corp_2F1/change/").content.decode()


def test_address_of_unauthorized_provider_names_no_user(tmp_path):
    pages = pages_of_several_providers(tmp_path)
    for page in ("databroker/session/", "databroker/session/s-partner_2Feve/change/", "databroker/session/s-partner_2Feve/delete/"):
        assert "partner/eve" in visible_text(pages.get(page))
    assert visible_text(pages.get("databroker/session/")).count("ceo@corp.example") == 1, "the session of whose it is"
    assert "ceo@corp.example" not in visible_text(pages.get("databroker/session/s-partner_2Feve/delete/"))


@pytest.mark.parametrize("word", ["ceo@corp.example", "CEO@", "corp.example", "%40corp", "ceo"])
def test_address_of_unauthorized_provider_finds_no_user(tmp_path, word):
    pages = pages_of_several_providers(tmp_path)
    for of in ("user", "session"):
        found = pages.get(f"databroker/{of}/?q={word}").content.decode()
        assert ("corp_2F1" in found, "partner_2F" in found) == (True, False)
        assert "partner_2Feve" in pages.get(f"databroker/{of}/?q=eve").content.decode()
