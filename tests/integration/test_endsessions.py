"""Sessions that an operator ends from a shell: the selection, the output, and the audit entry that precedes the end."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from config.options import Options
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry
from databroker.records import SESSION, USER
from gateproject.management.broker_access import open_broker
from tests.support.options import make_options
from tests.support.redis_server import RedisServer
from tests.support.several_providers import several
from tests.support.signed_in import put_session

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def options(tmp_path: Path, server: RedisServer) -> Options:
    options = make_options(tmp_path, databroker_storage_type="kvstore", databroker_storage_connection_string=server.url)
    asyncio.run(_fill(options))
    return options


async def _fill(options: Options) -> None:
    async with open_broker(options) as broker:
        for id, email in (("oidc/1", "Ann@a.org"), ("oidc/2", "bob@a.org")):
            await broker.put(USER, id, {"email": email})
        for id, user in (("a1", "oidc/1"), ("a2", "oidc/1"), ("b1", "oidc/2"), ("c1", "oidc/gone")):
            await put_session(broker, id, {"user_id": user, "linked_session_ids": ["a2"] if id == "a1" else []})


async def _left(options: Options) -> list[str]:
    async with open_broker(options) as broker:
        return [record.id for record in await broker.page(SESSION, "", 10)]


def run(options: Options, *arguments: Any) -> str:
    out = io.StringIO()
    with override_settings(GATE_OPTIONS=options, GATE_CONFIG_ERROR=None):
        call_command("endsessions", *arguments, stdout=out)
    return out.getvalue().strip()


@pytest.mark.parametrize(
    ("arguments", "left", "received", "logged"),
    [
        (("--session", "a2"), ["a1", "b1", "c1"], "1 session ended", [(AuditAction.END_SESSION, "a2")]),
        (("--session", "a1", "b1"), ["c1"], "3 sessions ended", [(AuditAction.END_SESSION, "a1"), (AuditAction.END_SESSION, "b1")]),
        (("--session", "none"), ["a1", "a2", "b1", "c1"], "0 sessions ended", [(AuditAction.END_SESSION, "none")]),
        (("--user", "ann@A.org"), ["b1", "c1"], "2 sessions ended", [(AuditAction.END_ALL_SESSIONS, "ann@A.org")]),
        (("--user", "oidc/gone"), ["a1", "a2", "b1"], "1 session ended", [(AuditAction.END_ALL_SESSIONS, "oidc/gone")]),
        (("--all",), [], "4 sessions ended", [(AuditAction.END_ALL_SESSIONS, "all users")]),
    ],
)
def test_the_chosen_sessions_end(options: Options, arguments: tuple[str, ...], left: list[str], received: str, logged: list[Any]) -> None:
    assert run(options, *arguments) == received
    assert asyncio.run(_left(options)) == left
    assert list(AuditEntry.objects.order_by("id").values_list("action", "object_id")) == logged
    assert AuditEntry.objects.first().actor.endswith("(command line)")


def test_unauthoritative_address_ends_no_sessions(tmp_path: Path) -> None:
    stored = {"databroker_storage_type": "database"}
    received = make_options(tmp_path, **several("corp", "partner"), **stored)

    async def fill() -> None:
        async with open_broker(received) as broker:
            for id in ("corp/1", "partner/1"):
                await broker.put(USER, id, {"email": "Ann@corp.example"})
                await put_session(broker, id.replace("/", "-"), {"user_id": id})

    asyncio.run(fill())
    assert run(received, "--user", "ann@corp.example") == "1 session ended"
    assert "partner-1" in asyncio.run(_left(received))
    with pytest.raises(CommandError, match="has this verified address"):
        run(received, "--user", "ann@partner.example")


@pytest.mark.parametrize("output", [{"email_verified": False}, {"claims": {"email_verified": "false"}}])
def test_unverified_address_ends_no_other_sessions(tmp_path: Path, output: dict[str, Any]) -> None:
    options = make_options(tmp_path, databroker_storage_type="database")

    async def fill() -> None:
        async with open_broker(options) as broker:
            for id, more in (("oidc/ann", {}), ("oidc/mallory", output)):
                await broker.put(USER, id, {"email": "ann@unverified.example", **more})
                await put_session(broker, id.replace("/", "-"), {"user_id": id})

    async def clear() -> None:
        async with open_broker(options) as broker:
            await broker.delete(SESSION, "oidc-mallory")

    asyncio.run(fill())
    assert run(options, "--user", "ann@unverified.example") == "1 session ended"
    left = asyncio.run(_left(options))
    asyncio.run(clear())
    assert ("oidc-ann" in left, "oidc-mallory" in left) == (False, True)


def test_unknown_address_ends_no_sessions(options: Options) -> None:
    with pytest.raises(CommandError, match=r"eve@a\.org: no user"):
        run(options, "--user", "ann@a.org", "eve@a.org")
    assert not AuditEntry.objects.exists(), "the audit log has no entry for an end that was not tried"
    assert asyncio.run(_left(options)) == ["a1", "a2", "b1", "c1"]


def test_unavailable_store_is_reported_and_logged(tmp_path: Path) -> None:
    options = make_options(
        tmp_path, databroker_storage_type="kvstore", databroker_storage_connection_string="redis://127.0.0.1:1", grpc_client_timeout="1s"
    )
    with pytest.raises(CommandError, match="not ended"):
        run(options, "--session", "a1")
    assert [entry.action for entry in AuditEntry.objects.order_by("id")] == [AuditAction.END_SESSION, AuditAction.END_SESSION.failure]


def test_command_without_audit_log_names_the_right_host(tmp_path: Path) -> None:
    options = make_options(
        tmp_path, services="proxy", authorize_service_url="http://127.0.0.1:1", databroker_service_url="http://127.0.0.1:1"
    )
    with pytest.raises(CommandError, match="configuration of authenticate"):
        run(options, "--all")


@pytest.mark.parametrize("command", ["endsessions --all", "checkbroker", "serviceaccount list"])
def test_tables_that_can_not_be_opened_are_a_sentence(tmp_path: Path, command: str) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    options = make_options(tmp_path, data_dir=str(in_the_way / "data"))
    name, *arguments = command.split()
    with (
        override_settings(GATE_OPTIONS=options, GATE_CONFIG_ERROR=None),
        pytest.raises(CommandError, match="audit log write failed"),
    ):
        call_command(name, *arguments)
