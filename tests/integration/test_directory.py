"""The whole product reads a directory: groups at sign-in, by hand, and no longer; and the admin's history of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import free_port
from tests.support.eventually import eventually_equal
from tests.support.fake_directories import ByName
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, FakeIdP
from tests.support.fork_server import run
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, led_to, status_or_cut
from tests.support.upstream import SampleUpstream

APP = "app.localhost"


@pytest.fixture
async def gate(directory: ByName, idp: FakeIdP, upstream: SampleUpstream, tmp_path: Path) -> AsyncIterator[RunningGate]:
    builder = GateBuilder(idp.issuer).route(APP, to=upstream.url, allowed_groups=[directory.group_id("engineering")])
    builder.setting(**{**directory.settings(), "idp_provider_url": idp.issuer}, grpc_address=f"127.0.0.1:{free_port()}")
    builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET)
    running = await asyncio.to_thread(builder.start, tmp_path)
    try:
        yield running
    finally:
        await asyncio.to_thread(running.child.__exit__)


DENIED, NEGATED = "denied.localhost", "negated.localhost"


@pytest.mark.parametrize(
    ("is_reachable", "team", "status"),
    [(True, "engineering", 403), (True, "", 200), (False, "engineering", 403), (False, "", 403)],
)
async def test_a_directory_that_is_away_at_the_sign_in_lifts_no_deny(
    directory: ByName, idp: FakeIdP, upstream: SampleUpstream, tmp_path: Path, is_reachable: bool, team: str, status: int
) -> None:
    directory.company.users["alice"] = ("Alice Adams", "alice@corp.example")
    if team:
        directory.company.members[team].append("alice")
    group = directory.group_id("engineering")
    program: dict[str, Any] = {"bearer_token": "idp_access_token", "bearer_token_audience": ["*"]}
    builder = GateBuilder(idp.issuer)
    deny = [{"deny": {"and": [{"groups": {"in": [group]}}]}}]
    builder.route(DENIED, to=upstream.url, allow_any_authenticated_user=True, policy=deny, **program)
    builder.route(NEGATED, to=upstream.url, policy=[{"allow": {"and": [{"groups": {"not_in": [group]}}]}}], **program)
    builder.setting(**{**directory.settings(), "idp_provider_url": idp.issuer})
    builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET)
    if not is_reachable:
        builder.setting(idp_directory_url=f"http://127.0.0.1:{free_port()}")
    running = await asyncio.to_thread(builder.start, tmp_path)
    try:
        if is_reachable:
            await asyncio.to_thread(running.child.wait_for_line, '"directory sync completed"')
        idp.give_access("opaque-token-of-alice", "alice")
        bearer = {"Authorization": "Bearer opaque-token-of-alice"}
        async with running.client() as client:
            assert [(await client.get(running.url(host), headers=bearer)).status_code for host in (DENIED, NEGATED)] == [status, status]
            offered = await led_to(client, running.url(DENIED), idp.issuer)
            callback = idp.pick(offered, "alice")
            assert (await follow(client, await client.get(callback, headers=HTML))).status_code == status
            assert (await follow(client, await client.get(running.url(NEGATED), headers=HTML))).status_code == status
    finally:
        await asyncio.to_thread(running.child.__exit__)


async def syncdirectory(gate: RunningGate, *arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(run, "manage.py", "syncdirectory", *arguments, "-config", gate.config_file)
    return done.returncode, done.stdout + done.stderr


async def test_groups_come_at_sign_in_and_go_with_the_next_reading(gate: RunningGate, directory: ByName, idp: FakeIdP) -> None:
    await asyncio.to_thread(gate.child.wait_for_line, '"directory sync completed"')
    company = directory.company
    company.users["alice"] = ("Alice Adams", "alice@corp.example")
    company.members["engineering"].append("alice")
    async with gate.client() as client:
        offered = await led_to(client, gate.url(APP), idp.issuer)
        callback = idp.pick(offered, "alice")
        assert (await follow(client, await client.get(callback, headers=HTML))).status_code == 200

        company.members["engineering"].remove("alice")
        directory.changed["engineering"] = "2026-05-05T00:00:00.000Z"
        status, report = await syncdirectory(gate, "--json", "--dry-run")
        assert status == 0, report
        (change,) = json.loads(report[report.index("{") :])["changes"]
        assert (change["change"], change["id"], change["group_ids"]) == ("change", "okta/alice", [])
        assert (await client.get(gate.url(APP), headers=HTML)).status_code == 200
        status, report = await syncdirectory(gate)
        assert f"~ user okta/alice: removed from {directory.group_id('engineering')}" in report
        await eventually_equal(lambda: status_or_cut(client, gate.url(APP), headers=HTML), 403)

        company.users = {"alice": company.users["alice"]}
        company.members = {group: [] for group in company.members}
        directory.changed = dict.fromkeys(company.groups, "2026-06-06T00:00:00.000Z")
        status, report = await syncdirectory(gate)
        assert status == 1
        assert "--force" in report
        status, report = await syncdirectory(gate, "--force")
        assert status == 0, report
        assert "4 removed written" in report
    assert not any(secret in gate.child.output + report for secret in ("okta-key", CLIENT_SECRET))
