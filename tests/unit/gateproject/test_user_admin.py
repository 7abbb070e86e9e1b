"""A user's page shows all of their data, and no other user's."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

import authenticate.admin
import authorize.admin
from authenticate.views.oauth import connection_admin
from authorize.models import LoggedDecision
from databroker.admin import group_admin, service_account_admin, session_admin
from databroker.audit_log import AuditAction
from databroker.grants.access_request_store import AccessRequest, AccessRequestStore
from databroker.grants.grant_records import AccessGrant
from databroker.grants.grant_store import GrantStore
from databroker.models import AuditEntry, ConnectedAccount, Group, Membership, ServiceAccount, Session, User
from databroker.records import PROGRAMMATIC_CLIENT, USER, ProgrammaticClient, UserRecord
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from gateproject import user_admin
from tests.support.admin import AdminPages, visible_text
from tests.support.database import row
from tests.support.options import make_options
from tests.support.several_providers import several
from tests.support.signed_in import put_session

pytestmark = pytest.mark.usefixtures("database")

NOW = 1_800_000_000.0
ISSUER = "https://idp.example.com"
PAGE = "databroker/user/oidc_2Fann/change/"


class People:
    """Ann, whose page it is, and Bob, whose data must not appear."""

    def __init__(self, directory: Path, **settings: Any):
        self.broker = MemoryStore(lambda: NOW)
        parts: Any = (session_admin, authorize.admin, authenticate.admin, connection_admin, group_admin, service_account_admin, user_admin)
        registers = [part.register for part in parts]
        options = make_options(directory, **{"groups_claim": "groups", **settings})
        self.pages = AdminPages(*registers, broker=self.broker, options=options)
        for name in ("ann", "bob"):
            row(User, id=f"oidc/{name}", email=f"{name}@example.com", name=name)
            async_to_sync(self.broker.put)(USER, f"oidc/{name}", {"id": f"oidc/{name}", "email": f"{name}@example.com", "issuer": ISSUER})

    def text(self) -> str:
        return visible_text(self.pages.get(PAGE))


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People(tmp_path)


def decided(name: str, url: str) -> None:
    at = datetime.fromtimestamp(NOW, UTC)
    values = {"display_name": f"{name}@example.com", "user_id": f"oidc/{name}", "method": "GET", "url": url}
    LoggedDecision.objects.create(decided_at=at, outcome="forbidden", duration_seconds=0, snapshot="{}", **values)


async def grant_and_request(broker: MemoryStore, name: str, why: str) -> None:
    user, route = UserRecord(f"oidc/{name}", email=f"{name}@example.com", issuer=ISSUER), f"wages of {name}"
    await GrantStore(broker, lambda: NOW).grant(user, AccessGrant("a1", "key", NOW, NOW + 3600, "carol", why, route))
    access_request = AccessRequest("n1", user.id, ISSUER, name, "other", f"the vault of {name}", why, 600.0, NOW)
    await AccessRequestStore(broker, lambda: NOW).add(access_request)


def test_page_of_unknown_user_reports_no_data(people: People) -> None:
    text = people.text()
    assert "None in the" in text
    assert "Temporary access: None." in text
    assert "Access requests: None." in text


def test_it_shows_where_groups_come_from(people: People) -> None:
    row(Group, id="eng", name="Engineering")
    row(Group, id="ops", name="Operations")
    row(Membership, user_id="oidc/ann", group_id="eng", from_claim=True, from_directory=False)
    row(Membership, user_id="oidc/ann", group_id="ops", from_claim=True, from_directory=True)
    text = people.text()
    assert "Engineering : the claim “groups” of " in text
    assert "; the directory of " in text.partition("Operations")[2]


def test_it_displays_only_their_decisions_access_requests_and_service_accounts(people: People) -> None:
    for name in ("ann", "bob"):
        decided(name, f"https://app.example.com/{name}")
        async_to_sync(grant_and_request)(people.broker, name, f"as {name} says")
        row(ServiceAccount, id=f"robot-of-{name}", created_by=f"{name}@example.com")
    text = people.text()
    assert "forbidden GET https://app.example.com/ann" in text
    assert "wages of ann, until" in text
    assert "as ann says (granted by carol)" in text
    assert "the vault of ann, for 10 minutes, until" in text
    assert "robot-of-ann" in text
    assert "bob" not in text


def let_in(people: People, session: str, user: str, at: str) -> None:
    row(Session, id=session, user_id=user)
    record = ProgrammaticClient("app.example.com", at, NOW)
    async_to_sync(people.broker.put)(PROGRAMMATIC_CLIENT, f"{session}/0123456789abcdef", record.to_data())


def test_programmatic_sessions_are_displayed_with_their_parent_session(people: People) -> None:
    assert "None in the newest 20 sessions." in people.text()
    let_in(people, "s-ann", "oidc/ann", "localhost:8123")
    let_in(people, "s-bob", "oidc/bob", "localhost:9999")
    page = people.pages.get(PAGE)
    assert "Program at localhost:8123 for app.example.com, since 15 Jan 2027, 08:00:00 UTC , until" in visible_text(page)
    assert '<a href="/admin/databroker/session/s-ann/change/">this session</a>' in page.content.decode()
    assert "localhost:9999" not in page.content.decode()


def test_service_accounts_are_displayed_with_permissions_and_usage(people: People) -> None:
    assert "Service accounts created by this user: None." in people.text()
    until = datetime.fromtimestamp(NOW + 86400, UTC)
    row(ServiceAccount, id="ci", created_by="ann@example.com", groups="builders", permissions="routes:read", expires_at=until)
    row(ServiceAccount, id="idle", created_by="ann@example.com", last_seen_at=until)
    text = people.text()
    assert "ci : groups builders, API: routes:read, until 16 Jan 2027, 08:00:00 UTC , never used" in text
    assert "idle : no group, no expiry, last used 16 Jan 2027, 08:00:00 UTC" in text


def test_accounts_belong_to_users_by_unique_identifier(people: People) -> None:
    User.rows.filter(pk="oidc/ann").update(email="", unauthoritative_email="ann@example.com", name="Ann")
    for id, maker in (("by-id", "oidc/ann"), ("by-name", "Ann (oidc/ann)"), ("boss-s", "ann@example.com"), ("eve-s", "Ann (oidc/eve)")):
        row(ServiceAccount, id=id, created_by=maker)
    text = people.text()
    assert [name for name in ("by-id", "by-name", "boss-s", "eve-s") if f"{name} : no group" in text] == ["by-id", "by-name"]


def test_creator_of_account_is_found_by_an_index(people: People) -> None:
    assert "service_account_by_creator (created_by=?)" in ServiceAccount.objects.filter(created_by="ann@example.com").explain()


def test_latest_decisions_are_displayed_with_a_link_to_all(people: People) -> None:
    for number in range(user_admin.RECENT_DECISIONS + 1):
        decided("ann", f"https://app.example.com/page-{number:02}")
    page = people.pages.get(PAGE).content.decode()
    assert "page-00" not in page
    assert page.index("page-10") < page.index("page-01")
    assert 'href="/admin/authorize/loggeddecision/?user=oidc%2Fann"' in page


def test_page_reports_missing_broker(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*arguments: object) -> None:
        raise BrokerError("away")

    monkeypatch.setattr(people.broker, "get", away)
    text = people.text()
    assert f"Temporary access: {user_admin.BROKER_UNAVAILABLE}" in text
    assert f"Authorized programs: {user_admin.BROKER_UNAVAILABLE}" in text


def test_its_button_ends_all_of_their_sessions(people: People) -> None:
    for name in ("ann", "bob"):
        async_to_sync(put_session)(people.broker, f"s-{name}", {"user_id": f"oidc/{name}"})
        row(Session, id=f"s-{name}", user_id=f"oidc/{name}")
    page = people.pages.get(PAGE).content.decode()
    assert 'name="action" value="end_all"' in page
    assert 'name="_selected_action" value="oidc/ann"' in page
    assert "1 session ended." in visible_text(people.pages.post("databroker/user/", action="end_all", _selected_action="oidc/ann"))
    assert list(Session.objects.values_list("pk", flat=True)) == ["s-bob"]
    assert AuditEntry.objects.filter(object_id="oidc/ann", action=AuditAction.END_ALL_SESSIONS).count() == 1


def test_markup_in_reasons_and_addresses_stays_text(people: People) -> None:
    decided("ann", "https://app.example.com/<script>alert(1)</script>")
    async_to_sync(grant_and_request)(people.broker, "ann", "<img src=x>")
    let_in(people, "s-ann", "oidc/ann", "<b>localhost</b>")
    row(ServiceAccount, id="ci", created_by="ann@example.com", groups="<i>builders</i>")
    page = people.pages.get(PAGE).content.decode()
    assert [mark for mark in ("<script>alert", "<img src=x", "<b>localhost", "<i>builders") if mark in page] == []


def test_access_of_linked_accounts_is_on_the_page_of_each(tmp_path: Path) -> None:
    made = several("oidc", "partner")
    linked = [{**each, "domains": ["example.com"], "link_by": "verified_email", "trust_email": True} for each in made["identity_providers"]]
    people = People(tmp_path, **{**made, "identity_providers": linked, "groups_claim": None})
    access = AccessGrant("a1", "key", NOW, NOW + 3600, "carol", "an incident", "wages of ann")
    holder = UserRecord("verified_email/ann@example.com", name="ann", issuer="verified_email")
    async_to_sync(GrantStore(people.broker, lambda: NOW).grant)(holder, access)
    assert "wages of ann" in people.text()
    async_to_sync(grant_and_request)(people.broker, "ann", "what one account had before")
    assert "what one account had before" not in people.text()


def test_accounts_at_mcp_servers_are_linked(people: People) -> None:
    for name in ("ann", "bob"):
        row(ConnectedAccount, id=f"{name}/1", user_id=f"oidc/{name}", resource=f"https://{name}.example.com/mcp")
    content = people.pages.get(PAGE).content.decode()
    assert "https://ann.example.com/mcp</a>" in content
    assert "https://bob.example.com/mcp" not in content
