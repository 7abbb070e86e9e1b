"""API audit entries have the service account as actor, and a change without one is not applied."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import OperationalError

from authenticate.api.api_authenticator import ApiPrincipal
from authenticate.api.api_call import ApiCall
from databroker.audit_log import AuditLogUnavailable
from databroker.models import AuditEntry, User
from databroker.records import ServiceAccountRecord
from tests.support.database import in_database

ROBOT = ApiPrincipal(ServiceAccountRecord("robot", (), 1.0, 2e9, "", permissions=("sessions:end",)))


def call() -> ApiCall:
    gate = SimpleNamespace(clock=lambda: 1_800_000_000.0, client_address="192.0.2.7", request_id="ab")
    return ApiCall(cast(Any, gate), ROBOT, "", None, None)


async def test_audit_entry_names_the_service_account(database: None) -> None:
    await call().audit.record("does something", User, [("oidc/alice", "Alice"), ("oidc/bob", "Bob")])
    found = await in_database(lambda: list(AuditEntry.objects.order_by("pk")))
    assert [(each.object_id, each.object_repr, each.object_type) for each in found] == [
        ("oidc/alice", "Alice", "user"),
        ("oidc/bob", "Bob", "user"),
    ]
    entry = found[0]
    assert (entry.actor, entry.actor_id, entry.client_address) == ("robot (API)", "service_account/robot", "192.0.2.7")
    assert entry.occurred_at.timestamp() == 1_800_000_000.0


async def test_a_log_that_can_not_be_written_stops_the_call(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: Any, **__: Any) -> None:
        raise OperationalError("full")

    monkeypatch.setattr(type(AuditEntry.objects), "bulk_create", is_full)
    with pytest.raises(AuditLogUnavailable):
        await call().audit.record("does something", User, [("oidc/alice", "Alice")])
