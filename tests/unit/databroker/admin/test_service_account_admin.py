"""The admin makes, renews and revokes service accounts; each time the log says so, and a secret is in one answer only."""

import re

import pytest
from asgiref.sync import async_to_sync

from databroker.admin import service_account_admin
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry, ServiceAccount
from databroker.records import SERVICE_ACCOUNT, SESSION
from databroker.service_account_store import ServiceAccounts
from databroker.store.memory import MemoryStore
from foundation.crypto.service_account_token import verify_token
from foundation.errors import BrokerError
from tests.support.admin import AdminPages, apps_on_sign_in_page, visible_text
from tests.support.database import row

pytestmark = pytest.mark.usefixtures("database")

LIST, ADD = "databroker/serviceaccount/", "databroker/serviceaccount/add/"


@pytest.fixture
def pages(store: MemoryStore) -> AdminPages:
    return AdminPages(service_account_admin.register, broker=store)


def make(pages: AdminPages, **fields: str) -> str:
    return secret_in(pages.post(ADD, **{"name": "ci", "groups": "a\nb\n", "lifetime": "90", **fields}))


def secret_in(response) -> str:
    found = re.search(r'<code id="secret">([^<]+)</code>', response.content.decode())
    assert found is not None, visible_text(response)
    assert "no-store" in response.headers["Cache-Control"]
    return found[1]


def stored_hash(store: MemoryStore) -> str:
    record = async_to_sync(store.get)(SERVICE_ACCOUNT, "ci")
    return "" if record is None else record.data["secret_hash"]


def secret_viewers(store: MemoryStore) -> list[str]:
    record = async_to_sync(store.get)(SERVICE_ACCOUNT, "ci")
    assert record is not None
    return list(record.data["secret_viewers"])


def audited() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("id").values_list("action", "object_id"))


def test_account_is_created_and_its_secret_displayed_once(pages: AdminPages, store: MemoryStore) -> None:
    secret = make(pages)
    assert verify_token(secret, stored_hash(store))
    record = async_to_sync(store.get)(SERVICE_ACCOUNT, "ci")
    assert record is not None
    assert (list(record.data["groups"]), record.data["created_by"]) == (["a", "b"], "ann")
    assert audited() == [(AuditAction.CREATE_ACCOUNT, "ci")]
    row(ServiceAccount, id="ci", groups="a, b")
    assert secret not in pages.get(LIST).content.decode()
    assert "ci" in visible_text(pages.get(LIST))
    assert all(secret not in str(row) for row in AuditEntry.objects.values())


def test_viewer_of_a_secret_is_recorded_with_the_account(store: MemoryStore) -> None:
    """By what requests for access call people: who knows the secret must not answer their own by it."""
    pages = AdminPages(service_account_admin.register, broker=store, email="ann@example.com", session_id="s1")
    async_to_sync(store.put)(SESSION, "s1", {"user_id": "oidc/ann"})
    make(pages, permissions="requests:decide")
    row(ServiceAccount, id="ci")
    assert secret_viewers(store) == ["oidc/ann", "ann@example.com"]
    async_to_sync(store.put)(SESSION, "s1", {"user_id": "oidc/ann-2"})
    secret_in(pages.post(LIST, action="rotate", _selected_action="ci"))
    assert secret_viewers(store) == ["oidc/ann", "ann@example.com", "oidc/ann-2"]
    async_to_sync(store.delete)(SESSION, "s1")
    assert "Your session has ended" in visible_text(pages.post(LIST, action="rotate", _selected_action="ci"))
    assert "Your session has ended" in visible_text(pages.post(ADD, name="other", groups="", lifetime=""))


def test_password_user_is_identified_by_address_or_not_at_all(pages: AdminPages, store: MemoryStore) -> None:
    make(pages, permissions="requests:decide")
    assert secret_viewers(store) == []


def test_ungrantable_request_is_explained(pages: AdminPages) -> None:
    make(pages)
    assert "already" in visible_text(pages.post(ADD, name="ci", groups="", lifetime=""))
    assert "A name must have" in visible_text(pages.post(ADD, name="C I", groups="", lifetime=""))
    assert audited() == [
        (AuditAction.CREATE_ACCOUNT, "ci"),
        (AuditAction.CREATE_ACCOUNT, "ci"),
        (AuditAction.CREATE_ACCOUNT.failure, "ci"),
    ]
    assert "Add service account" in visible_text(pages.get(ADD))


def test_a_new_secret_replaces_the_old_one(pages: AdminPages, store: MemoryStore) -> None:
    first = make(pages)
    row(ServiceAccount, id="ci")
    second = secret_in(pages.post(LIST, action="rotate", _selected_action="ci"))
    assert verify_token(second, stored_hash(store))
    assert not verify_token(first, stored_hash(store))
    assert audited()[-1] == (AuditAction.ROTATE_ACCOUNT, "ci")


def test_revoking_service_account_lists_records_it_created(pages: AdminPages, store: MemoryStore) -> None:
    accounts = ServiceAccounts(store)
    async_to_sync(accounts.create)("ci--own", [], None, "service_account/ci")
    make(pages)
    row(ServiceAccount, id="ci")
    assert "Created by ci and no longer valid: ci--own." in visible_text(pages.post(LIST, action="revoke", _selected_action="ci"))


def test_revoked_is_gone(pages: AdminPages, store: MemoryStore) -> None:
    make(pages)
    row(ServiceAccount, id="ci")
    pages.post(LIST, action="revoke", _selected_action="ci")
    assert stored_hash(store) == ""
    assert audited()[-1] == (AuditAction.REVOKE_ACCOUNT, "ci")
    assert not ServiceAccount.objects.exists()


def test_unavailable_broker_is_displayed() -> None:
    class Away(MemoryStore):
        async def put(self, *args, **facts):
            raise BrokerError("away")

        async def delete(self, *args):
            raise BrokerError("away")

    pages = AdminPages(service_account_admin.register, broker=Away())
    assert "nothing was changed" in visible_text(pages.post(ADD, name="ci", groups="", lifetime=""))
    row(ServiceAccount, id="ci")
    pages.post(LIST, action="revoke", _selected_action="ci")
    assert ServiceAccount.objects.filter(pk="ci").exists()
    assert audited()[-1] == (AuditAction.CREATE_ACCOUNT.failure, "ci")


def test_other_users_are_denied(store: MemoryStore) -> None:
    pages = AdminPages(service_account_admin.register, is_staff=False, broker=store)
    for response in (pages.get(LIST), pages.get(ADD)):
        assert response.headers["Location"].startswith("/admin/login/")
    assert "gate_sa_" not in pages.post(ADD, name="ci", groups="", lifetime="").content.decode()
    assert audited() == []
    assert stored_hash(store) == ""
    assert apps_on_sign_in_page(service_account_admin.register) == []


def test_permissions_are_chosen_and_none_is_by_itself(pages: AdminPages, store: MemoryStore) -> None:
    make(pages)
    record = async_to_sync(store.get)(SERVICE_ACCOUNT, "ci")
    assert record is not None
    assert list(record.data["permissions"]) == []
    assert "sessions:end: end one session" in visible_text(pages.get(ADD))
    secret_in(pages.post(ADD, name="cd", groups="", lifetime="90", permissions=["routes:read", "users:read"]))
    record = async_to_sync(store.get)(SERVICE_ACCOUNT, "cd")
    assert record is not None
    assert list(record.data["permissions"]) == ["users:read", "routes:read"]
    refused = pages.post(ADD, name="ce", groups="", lifetime="90", permissions=["everything"])
    assert "everything is not one of the available choices" in visible_text(refused)
    row(ServiceAccount, id="cd", permissions="users:read, routes:read")
    assert "users:read, routes:read" in visible_text(pages.get(LIST))
