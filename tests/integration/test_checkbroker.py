"""Tables and store compared from a shell: differences are reported and, on demand, repaired in the tables; records never change."""

import asyncio
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from config.options import Options
from databroker.models import Group, Membership, ServiceAccount, Session, User
from databroker.projection import projection_verifier
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SERVICE_ACCOUNT, SESSION, USER
from gateproject.management.broker_access import open_broker
from tests.support.database import empty_the_tables, row
from tests.support.options import make_options
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.usefixtures("database_once")


@pytest.fixture(scope="module")
def options(database_once: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    """Tables and store say the same; each test leaves them so, and its last assertion says it."""
    directory = tmp_path_factory.mktemp("checkbroker")
    with RedisServer(directory / "redis") as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection_verifier, "SETTLE_SECONDS", 0.0)
        options = make_options(directory, databroker_storage_type="kvstore", databroker_storage_connection_string=server.url)
        asyncio.run(_fill(options))
        assert run(options, "--repair")[0] == 0
        yield options
    empty_the_tables()


async def _fill(options: Options) -> None:
    async with open_broker(options) as broker:
        claims = {"groups": ["claimed", "both"]}
        await broker.put(USER, "oidc/1", {"email": "ann@a.org", "issuer": options.idp_provider_url, "claims": claims})
        await broker.put(DIRECTORY_USER, "oidc/1", {"group_ids": ["g1"]})
        for group in ("g1", "both"):
            await broker.put(DIRECTORY_GROUP, group, {"name": "engineering"})
        await broker.put(SERVICE_ACCOUNT, "ci", {"groups": ["a"]})
        for number in range(1200):
            await broker.put(SESSION, f"s{number}", {"user_id": "oidc/1"})


def run(options: Options, *arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with override_settings(GATE_OPTIONS=options, GATE_CONFIG_ERROR=None):
        try:
            call_command("checkbroker", *arguments, stdout=out)
        except SystemExit as ended:
            return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


def test_tables_that_are_right_are_left_alone(options: Options) -> None:
    status, received = run(options)
    assert status == 0
    assert "sessions: 1200 records; the table agrees" in received
    assert "differ" not in received


INVALID: dict[str, tuple[Callable[[], object], str]] = {
    "a session's row is gone": (lambda: Session.rows.filter(pk="s7").delete(), "session s7"),
    "a session's row has no record": (lambda: row(Session, id="stolen"), "session stolen"),
    "a session's row says another person": (lambda: Session.rows.filter(pk="s7").update(user_id="oidc/2"), "session s7"),
    "a person's row is gone": (lambda: User.rows.all().delete(), "user oidc/1"),
    "a person's row says another address": (lambda: User.rows.update(email="eve@a.org"), "user oidc/1"),
    "a membership is gone": (lambda: Membership.rows.filter(group_id="g1").delete(), "user oidc/1"),
    "a membership is invented": (lambda: row(Membership, user_id="oidc/1", group_id="admins"), "user oidc/1"),
    "a membership says another source": (lambda: Membership.rows.filter(group_id="claimed").update(from_directory=True), "user oidc/1"),
    "the row of a group that a claim names is gone": (lambda: Group.rows.filter(pk="claimed").delete(), "group claimed"),
    "a group's row says that no claim names it": (lambda: Group.rows.filter(pk="both").update(from_claim=False), "group both"),
    "a claimed group is invented": (lambda: row(Group, id="g2", in_directory=False, from_claim=True), "group g2"),
    "a group's row has no record": (lambda: row(Group, id="g2"), "group g2"),
    "a service account's row is gone": (lambda: ServiceAccount.rows.all().delete(), "service account ci"),
}


@pytest.mark.parametrize(("harm", "what"), INVALID.values(), ids=INVALID)
def test_differences_are_reported_and_repaired(options: Options, harm: Callable[[], object], what: str) -> None:
    harm()
    status, received = run(options)
    assert (status, [line.strip() for line in received.splitlines() if line.startswith("  ")]) == (1, [what])
    status, received = run(options, "--repair")
    assert status == 0
    assert "1 of 1 rows repaired" in received
    assert run(options)[0] == 0
    assert Session.objects.count() == 1200


def test_unavailable_store_is_reported(tmp_path: Path) -> None:
    options = make_options(
        tmp_path, databroker_storage_type="kvstore", databroker_storage_connection_string="redis://127.0.0.1:1", grpc_client_timeout="1s"
    )
    with pytest.raises(CommandError, match="comparison failed"):
        run(options)
