"""Admin page of connected accounts: every user's, with their state and without their tokens; disconnected after the audit log has it."""

from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.admin.utils import quote

from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authenticate.views.oauth import connection_admin
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry, ConnectedAccount, User
from databroker.projection.rows import RowBatch, add_connected_account, write
from databroker.records import UPSTREAM_CONNECTION
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.admin import AdminPages, visible_text
from tests.support.authenticate_site import ORIGIN
from tests.support.connections import OTHER_RESOURCE, RESOURCE, a_connection, put_connection, server_in, upstream_oauth
from tests.support.database import row
from tests.support.options import make_options

pytestmark = pytest.mark.usefixtures("database")

LIST = "databroker/connectedaccount/"
NOW = 1_900_000_000.0
SERVER: Any = SimpleNamespace(issuer="https://login.example.org")


class Stage:
    def __init__(self, directory: Path):
        mcp = {"path": "/mcp", "name": "Third party", "upstream_oauth": upstream_oauth(SERVER)}
        route = {"from": "https://third.example.com", "to": "https://mcp.example.org", "mcp": mcp, "allow_any_authenticated_user": True}
        self.options = make_options(directory, policy=[route], authenticate_service_url=ORIGIN)
        self.broker, self.revoked = MemoryStore(lambda: NOW), list[str]()
        self.connections = UpstreamConnections(self.options, self.broker, lambda: NOW)
        self.connections.revoke = lambda connection: self.revoked.append(connection.user_id)  # type: ignore[method-assign]
        self.ids: dict[str, str] = {}

    async def put(self, name: str, **changes: Any) -> None:
        connection = a_connection(server_in(self.options), lambda: NOW - 60, user_id=f"oidc/{name}", **changes)
        self.ids[name] = await put_connection(self.broker, connection)
        await self.project(self.ids[name])

    async def project(self, id: str) -> None:
        rows = RowBatch()
        add_connected_account(rows, id, await self.broker.get(UPSTREAM_CONNECTION, id))  # type: ignore[arg-type]
        await sync_to_async(write)(rows)

    @cached_property
    def pages(self) -> AdminPages:
        authenticate = SimpleNamespace(connections=self.connections, broker=self.broker, clock=lambda: NOW)
        return AdminPages(connection_admin.register, broker=self.broker, options=self.options, authenticate=authenticate)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    row(User, id="oidc/alice", email="alice@example.com")

    async def connect() -> None:
        await stage.put("alice")
        await stage.put("bob", refused_at=NOW - 1)
        await stage.put("carol", server_fingerprint="old")
        await stage.put("dave", resource=OTHER_RESOURCE)

    async_to_sync(connect)()
    return stage


def test_all_accounts_are_listed_with_their_state(stage: Stage) -> None:
    page = stage.pages.get(LIST)
    text = visible_text(page)
    for user in ("alice@example.com", "oidc/bob", "oidc/carol", "oidc/dave", RESOURCE, OTHER_RESOURCE):
        assert user in text
    for state in connection_admin.STATES.values():
        assert state in text
    for secret in ("access-1", "refresh-1", "client-secret"):
        assert secret not in page.content.decode()
    assert "oidc/carol" not in visible_text(stage.pages.get(LIST, q="alice"))


def test_details_have_no_token(stage: Stage) -> None:
    page = stage.pages.get(f"{LIST}{quote(stage.ids['bob'])}/change/")
    assert connection_admin.STATES["expired"] in visible_text(page)
    assert "refresh-1" not in page.content.decode()
    assert stage.pages.get(f"{LIST}{quote('nothing')}/change/").status_code == 302


def test_administrator_disconnects_accounts(stage: Stage) -> None:
    ids = [stage.ids["alice"], stage.ids["carol"]]
    answer = stage.pages.post(LIST, action="disconnect", _selected_action=ids)
    assert "2 disconnected" in visible_text(answer)
    assert "oidc/carol" not in visible_text(answer).partition("disconnected")[2]
    assert set(stage.revoked) == {"oidc/alice", "oidc/carol"}
    left = async_to_sync(stage.broker.page)(UPSTREAM_CONNECTION, "", 10)
    assert {record.data["user_id"] for record in left} == {"oidc/bob", "oidc/dave"}
    entries = AuditEntry.objects.filter(action=AuditAction.DISCONNECT_SERVER)
    assert {(entry.actor, entry.object_id, entry.object_repr.partition(" ")[0]) for entry in entries} == {
        ("ann", ids[0], "oidc/alice"),
        ("ann", ids[1], "oidc/carol"),
    }


def test_failure_is_displayed_and_in_the_audit_log(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> bool:
        raise BrokerError("away")

    monkeypatch.setattr(stage.broker, "delete", away)
    answer = stage.pages.post(LIST, action="disconnect", _selected_action=[stage.ids["alice"]])
    assert "0 disconnected" in visible_text(answer)
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")] == [
        AuditAction.DISCONNECT_SERVER,
        AuditAction.DISCONNECT_SERVER.failure,
    ]
    assert ConnectedAccount.objects.filter(pk=stage.ids["alice"]).exists()
    assert stage.revoked == []


def test_only_staff_see_the_accounts(stage: Stage) -> None:
    authenticate = SimpleNamespace(connections=stage.connections, broker=stage.broker, clock=lambda: NOW)
    pages = AdminPages(connection_admin.register, is_staff=False, broker=stage.broker, options=stage.options, authenticate=authenticate)
    assert pages.get(LIST).status_code == 302
