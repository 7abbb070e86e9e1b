"""Service account commands: arguments, output, records, and audit entries."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from config.options import Options
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry, ServiceAccount
from databroker.service_account_store import ServiceAccounts
from foundation.crypto.service_account_token import parse_name
from gateproject.management.broker_access import open_broker
from tests.support.database import row
from tests.support.options import make_options

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return make_options(tmp_path, databroker_storage_type="database")


def run(options: Options, *arguments: Any) -> str:
    out, err = io.StringIO(), io.StringIO()
    with override_settings(GATE_OPTIONS=options, GATE_CONFIG_ERROR=None):
        call_command("serviceaccount", *arguments, stdout=out, stderr=err)
    assert "gate_sa_" not in err.getvalue()
    return out.getvalue().strip()


def audited() -> list[tuple[str, str]]:
    return [(entry.action, entry.object_id) for entry in AuditEntry.objects.order_by("id")]


def test_the_life_of_an_account(options: Options) -> None:
    token = run(options, "create", "ci", "--group", "a", "--group", "b", "--expires", "30d")
    assert parse_name(token) == "ci", "standard output holds the secret and nothing else"
    row(ServiceAccount, id="ci", last_seen_at=timezone.now(), last_host="app.example.com")
    (listed,) = json.loads(run(options, "list", "--json"))
    assert (listed["name"], listed["groups"], listed["last_host"]) == ("ci", ["a", "b"], "app.example.com")
    assert listed["expires_at"] > listed["created_at"]
    assert listed["last_used_at"]
    assert token not in json.dumps(listed)
    renewed = run(options, "rotate", "ci", "--overlap", "10m")
    assert renewed != token
    assert parse_name(renewed) == "ci"
    (after,) = json.loads(run(options, "list", "--json"))
    assert after["expires_at"] == listed["expires_at"]
    assert after["rotated_at"]
    assert "last used" in run(options, "list")
    run(options, "rotate", "ci", "--expires", "never")
    assert json.loads(run(options, "list", "--json"))[0]["expires_at"] == ""
    run(options, "revoke", "ci")
    assert json.loads(run(options, "list", "--json")) == []
    names = [AuditAction.CREATE_ACCOUNT, AuditAction.ROTATE_ACCOUNT, AuditAction.ROTATE_ACCOUNT, AuditAction.REVOKE_ACCOUNT]
    assert audited() == [(name, "ci") for name in names]


def test_failure_is_reported_and_changes_nothing(options: Options) -> None:
    for arguments, message in (
        (("revoke", "unknown"), "service account unknown not found"),
        (("rotate", "unknown"), "service account unknown not found"),
        (("create", "C I"), "a name must have"),
        (("create", "ci", "--expires", "soon"), "--expires 'soon'"),
        (("create", "ci", "--expires", "0s"), "must be positive"),
    ):
        with pytest.raises(CommandError, match=message):
            run(options, *arguments)
    assert json.loads(run(options, "list", "--json")) == []
    assert (AuditAction.CREATE_ACCOUNT.failure, "unknown") in audited()


def test_queries_require_audit_log_permission(options: Options) -> None:
    with pytest.raises(CommandError, match="configuration of authenticate"):
        run(options.model_copy(update={"services": "proxy"}), "list")


def test_permissions_are_granted_by_name(options: Options) -> None:
    run(options, "create", "ci", "--permission", "routes:read", "--permission", "users:read")
    (listed,) = json.loads(run(options, "list", "--json"))
    assert listed["permissions"] == ["users:read", "routes:read"]
    assert "at the API users:read, routes:read" in run(options, "list")
    with pytest.raises(CommandError, match="invalid choice: 'everything'"):
        run(options, "create", "cd", "--permission", "everything")


@pytest.mark.parametrize("is_gone_before", [False, True])
def test_records_of_a_service_account_end_with_it_if_requested(options: Options, is_gone_before: bool) -> None:
    for name in ("robot", "other"):
        run(options, "create", name)
    made_by_programs(options, {"robot--a": "service_account/robot", "robot--a--b": "service_account/robot--a"})
    if is_gone_before:
        assert "robot--a, created by robot," in errors_of(options, "revoke", "robot")
        assert {account["name"] for account in json.loads(run(options, "list", "--json")) if account["ended_with_creator"]} == {
            "robot--a",
            "robot--a--b",
        }
        with pytest.raises(CommandError, match="service account robot not found"):
            run(options, "revoke", "robot")
    run(options, "revoke", "robot", "--created")
    assert [account["name"] for account in json.loads(run(options, "list", "--json"))] == ["other"]
    assert {id for action, id in audited() if action == "revokes the service account"} == {"robot", "robot--a", "robot--a--b"}
    with pytest.raises(CommandError, match="service account robot not found"):
        run(options, "revoke", "robot", "--created")


def test_a_chain_that_revokes_its_own_middle_ends_all_the_same(options: Options) -> None:
    run(options, "create", "ci")
    made_by_programs(options, {"ci--a": "service_account/ci", "ci--a--b": "service_account/ci--a"})
    run(options, "revoke", "ci--a")
    run(options, "revoke", "ci", "--created")
    assert json.loads(run(options, "list", "--json")) == []


def test_a_new_secret_names_the_accounts_that_end_with_the_old_one(options: Options) -> None:
    run(options, "create", "robot")
    made_by_programs(options, {"robot--a": "service_account/robot"})
    assert "robot--a ends" in errors_of(options, "rotate", "robot")


def made_by_programs(options: Options, makers: dict[str, str]) -> None:
    async def make() -> None:
        async with open_broker(options) as broker:
            for name, maker in makers.items():
                await ServiceAccounts(broker).create(name, [], None, maker)

    asyncio.run(make())


def errors_of(options: Options, *arguments: str) -> str:
    err = io.StringIO()
    with override_settings(GATE_OPTIONS=options, GATE_CONFIG_ERROR=None):
        call_command("serviceaccount", *arguments, stdout=io.StringIO(), stderr=err)
    return err.getvalue()
