"""The admin's page of access for a while: approvers answer, others may only end; two at once, or a broken part, leave nothing half done."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError
from django.http import HttpResponse

import authenticate.admin as admin_page
import databroker.admin.session_admin
from authenticate.access_requests.access_request_service import AccessActor
from databroker.audit_log import Actor, ActorKind, AuditAction, AuditLog
from databroker.grants.grant_records import RETENTION_SECONDS, AccessGrant
from databroker.grants.grant_store import GrantStore
from databroker.models import AuditEntry
from databroker.records import Record, UserRecord
from foundation.errors import BrokerError
from tests.support.admin import AdminPages, visible_text
from tests.unit.authenticate.access_requests.test_access_request_service import HOUR, ISSUER, NOW, World

pytestmark = pytest.mark.usefixtures("database")

PAGE = "authenticate/accessforawhile/"


class Admin:
    """Admin page, whose administrator is the user `is_person`, or unknown to the access request service."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch):
        self.world = World(directory)
        self.actor: str | None = None
        service = SimpleNamespace(access_requests=self.world.desk, clock=lambda: self.world.now)
        authorize = SimpleNamespace(load_session_identity=self.world.identities)
        self.pages = AdminPages(
            admin_page.register,
            databroker.admin.session_admin.register,
            broker=self.world.broker,
            options=self.world.options,
            authenticate=service,
            authorize=authorize,
        )

        async def caller(request: Any) -> AccessActor | None:
            if self.actor is None:
                return None
            actor = Actor(ActorKind.USER, f"oidc/{self.actor}", self.actor)
            return replace(self.world.caller(self.actor), audit=AuditLog(actor, "192.0.2.9"))

        monkeypatch.setattr(admin_page, "admin_actor", caller)

    def give(self, why: str = "the year's end") -> None:
        access = AccessGrant("a1", "some key", NOW, NOW + HOUR, "bob", why, "wages")
        async_to_sync(GrantStore(self.world.broker, lambda: NOW).grant)(UserRecord("oidc/ann", name="ann", issuer=ISSUER), access)

    def ask(self, name: str = "ann", **keys: Any) -> str:
        held = async_to_sync(self.world.ask)(name, **keys)
        return f"{held.id} {held.request.request_id}"

    def granted(self) -> list[str]:
        return [user for user, _, _ in async_to_sync(self.world.granted)()]

    def press(self, **form: str) -> str:
        return visible_text(self.pages.post(PAGE, **form))


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admin:
    return Admin(tmp_path, monkeypatch)


def buttons(page: HttpResponse) -> list[str]:
    return re.findall(r'name="do" value="(\w+)"', page.content.decode())


def audited() -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.order_by("pk").values_list("actor", "action", "object_id"))


@pytest.mark.parametrize("actor", [None, "eve", "ann"])
@pytest.mark.parametrize("do", ["approve", "refuse"])
def test_administrator_without_approver_role_decides_nothing(admin: Admin, actor: str | None, do: str) -> None:
    value = admin.ask("ann")
    admin.actor = actor
    assert buttons(admin.pages.get(PAGE)) == []
    assert "nothing was changed" in admin.press(do=do, request=value)
    assert admin.granted() == []
    assert audited() == []
    assert "requests access to wages for 1 hour: the year's end" in visible_text(admin.pages.get(PAGE))


@pytest.mark.parametrize(
    ("entered_by", "signed_in_by", "answers_as"),
    [("s1", "s1", "oidc/ann"), (None, "s1", None), ("s1", "s2", None), ("s1", None, None)],
    ids=["single sign-on", "a password", "another session", "no session any more"],
)
async def test_an_answer_is_that_of_the_sign_in_by_which_the_admin_was_entered(
    tmp_path: Path, entered_by: str | None, signed_in_by: str | None, answers_as: str | None
) -> None:
    world = World(tmp_path)

    async def find(*arguments: object) -> Any:
        return None if signed_in_by is None else replace(world.caller("ann").session, id=signed_in_by)

    async def load_session_identity(id: str) -> Any:
        return world.identity("ann", id)

    service = SimpleNamespace(sessions=SimpleNamespace(find=find), host_port="", clock=lambda: NOW, broker=world.broker)
    gate = SimpleNamespace(authenticate=service, authorize=SimpleNamespace(load_session_identity=load_session_identity), client_address="")
    request: Any = SimpleNamespace(scope={"gate": gate, "headers": []}, session={"gate_session": entered_by} if entered_by else {})
    caller = await admin_page.admin_actor(request)
    assert (None if caller is None else caller.identity.user_id) == answers_as


def test_an_approver_approves_in_the_admin_as_on_their_own_page(admin: Admin) -> None:
    value, admin.actor = admin.ask("ann"), "bob"
    assert buttons(admin.pages.get(PAGE)) == ["approve", "refuse"]
    assert "Approved." in admin.press(do="approve", request=value)
    assert admin.granted() == ["oidc/ann"]
    assert [(action, id) for _, action, id in audited()] == [
        ("approves an access request", "oidc/ann"),
        ("grants temporary access", "oidc/ann"),
    ]
    assert "No pending requests" in visible_text(admin.pages.get(PAGE))


def test_two_simultaneous_decisions_apply_once(admin: Admin) -> None:
    value, admin.actor = admin.ask("ann"), "bob"
    admin.press(do="approve", request=value)
    admin.actor = "carol"
    assert "request is already" in admin.press(do="refuse", request=value)
    assert admin.granted() == ["oidc/ann"]


def test_expired_access_is_listed_for_a_day_without_button(admin: Admin) -> None:
    admin.give()
    admin.world.now += HOUR
    page = admin.pages.get(PAGE)
    assert buttons(page) == []
    assert "No user has temporary access. Expired within the last day ann , wages ," in visible_text(page)
    assert "nothing was changed" in admin.press(do="revoke", access="oidc/ann a1")
    admin.world.now += RETENTION_SECONDS
    assert "Expired" not in visible_text(admin.pages.get(PAGE))


def test_any_administrator_ends_access_and_the_log_knows_them_by_name(admin: Admin) -> None:
    admin.give()
    page = admin.pages.get(PAGE)
    assert buttons(page) == ["revoke"]
    assert "ann has access to wages until" in visible_text(page)
    assert "The access was revoked." in admin.press(do="revoke", access="oidc/ann a1")
    assert admin.granted() == []
    assert audited() == [("ann", "revokes temporary access", "oidc/ann")]
    assert [event.event for event in admin.world.events] == ["revoked"]
    assert "nothing was changed" in admin.press(do="revoke", access="oidc/ann a1")
    assert len(audited()) == 1


@pytest.mark.parametrize("form", [{}, {"do": "give"}, {"do": "revoke"}, {"do": "approve"}, {"do": "refuse", "request": "x"}])
def test_a_button_that_is_none_of_the_page_does_nothing(admin: Admin, form: dict[str, str]) -> None:
    admin.give()
    admin.actor = "bob"
    assert "nothing was changed" in admin.press(**form)
    assert admin.granted() == ["oidc/ann"]


def test_without_the_audit_log_nothing_is_ended(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OperationalError("full")

    admin.give()
    monkeypatch.setattr(AuditEntry.objects, "bulk_create", full)
    assert admin_page.AUDIT_LOG_UNAVAILABLE in admin.press(do="revoke", access="oidc/ann a1")
    assert admin.granted() == ["oidc/ann"]


def test_broker_outage_is_reported_on_the_page_and_logged(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*arguments: object, **options: object) -> Record:
        raise BrokerError("away")

    admin.give()
    with monkeypatch.context() as broken:
        broken.setattr(admin.world.broker, "put", away)
        assert admin_page.BROKER_UNAVAILABLE in admin.press(do="revoke", access="oidc/ann a1")
        broken.setattr(admin.world.broker, "page", away)
        assert "The data broker" in visible_text(admin.pages.get(PAGE))
    assert admin.granted() == ["oidc/ann"]
    assert [action for _, action, _ in audited()] == [AuditAction.REVOKE_ACCESS, AuditAction.REVOKE_ACCESS.failure]


def test_markup_in_names_and_reasons_stays_text(admin: Admin) -> None:
    admin.ask("<b>ann</b>", why="<script>alert(1)</script>")
    admin.give("<img src=x>")
    page = admin.pages.get(PAGE).content.decode()
    assert "&lt;b&gt;ann&lt;/b&gt;" in page
    assert [mark for mark in ("<script>alert", "<b>ann", "<img src=x") if mark in page] == []


def test_a_page_has_an_end(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_page, "MAX_ROWS", 2)
    for name in ("ann", "dan", "eve"):
        admin.ask(name)
    page = visible_text(admin.pages.get(PAGE))
    assert page.count("requests access to wages") == 2
    assert "Showing the first" in page


def test_requester_links_to_user_page_and_linked_accounts(admin: Admin) -> None:
    admin.world.linked = {"carol": "verified_email/carol@corp.example"}
    admin.ask("ann")
    admin.ask("carol")
    links = re.findall(r'<a href="([^"]*)">(ann|carol)</a>', admin.pages.get(PAGE).content.decode())
    assert {name: url.partition("/databroker/user/")[2] for url, name in links} == {
        "ann": "oidc_2Fann/change/",
        "carol": "?q=carol%40corp.example",
    }
