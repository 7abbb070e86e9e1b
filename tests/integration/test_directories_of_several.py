"""The whole product with a directory at each of two providers: each assigns groups to its own users only."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.children import free_port
from tests.support.eventually import eventually_equal
from tests.support.fake_directories import Okta
from tests.support.fake_idp import FakeIdP
from tests.support.fork_server import run
from tests.support.gate import AUTHENTICATE_HOST, HTML, GateBuilder, RunningGate, follow, led_to
from tests.support.redis_server import RedisServer
from tests.support.reloading import reload
from tests.support.several_providers import WITHOUT, entry
from tests.support.split import Split
from tests.support.upstream import SampleUpstream

TOKEN = "0123456789abcdefghijklmnopqrstuv"
STAFF, GUESTS, SHARED, OPEN = "staff.localhost", "guests.localhost", "shared.localhost", "open.localhost"


class ByName(Okta):
    """Okta with the names of users and groups as their ids, so that alice at sign-in is alice in the directory."""

    def user_id(self, user: str) -> str:
        return user

    def group_id(self, group: str) -> str:
        return group


@pytest.fixture
async def okta() -> AsyncIterator[ByName]:
    async with ByName() as running:
        running.company.users["alice"] = ("Alice of Okta", "ceo@corp.example")
        running.company.groups = ["guests", "shared"]
        running.company.members = {"guests": ["alice"], "shared": []}
        yield running


@pytest.fixture
async def idps() -> AsyncIterator[dict[str, FakeIdP]]:
    """At both, who signs in is alice."""
    found = {id: await FakeIdP.started() for id in ("corp", "partner")}
    yield found
    for idp in found.values():
        await idp.stop()


def entries(idps: dict[str, FakeIdP], okta: ByName) -> list[dict[str, Any]]:
    """Corp's people are in a file; partner's are read from a vendor."""
    vendor = {"provider": "okta", "service_account": okta.settings()["idp_service_account"], "directory_url": okta.url}
    return [entry("corp", idps["corp"], directory_file="people.yaml"), entry("partner", idps["partner"], **vendor)]


async def running(tmp_path: Path, upstream: SampleUpstream, *output: dict[str, Any], **settings: Any) -> AsyncIterator[RunningGate]:
    (tmp_path / "people.yaml").write_text("users: [{id: alice, groups: [staff, shared]}]")
    builder = GateBuilder("https://not-used.invalid").setting(**WITHOUT, idp_scopes=None, identity_providers=list(output))
    builder.setting(grpc_address=f"127.0.0.1:{free_port()}", metrics_address=f"127.0.0.1:{free_port()}")
    builder.setting(admin_allowed_users=["corp/alice"], jwt_claims_headers=["email", "groups"], **settings)
    for host, groups in ((STAFF, ["staff"]), (GUESTS, ["guests"]), (SHARED, ["shared"])):
        builder.route(host, to=upstream.url, allowed_groups=groups)
    builder.route(OPEN, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
    started = await asyncio.to_thread(builder.start, tmp_path)
    try:
        yield started
    finally:
        await asyncio.to_thread(started.child.__exit__)


@pytest.fixture
async def gate(idps: dict[str, FakeIdP], okta: ByName, upstream: SampleUpstream, tmp_path: Path) -> AsyncIterator[RunningGate]:
    async for started in running(tmp_path, upstream, *entries(idps, okta)):
        yield started


@pytest.fixture
async def pushed(idps: dict[str, FakeIdP], upstream: SampleUpstream, tmp_path: Path) -> AsyncIterator[RunningGate]:
    """Corp's people are in a file; partner pushes its own, to whichever of two workers."""
    corp, partner = entry("corp", idps["corp"], directory_file="people.yaml"), entry("partner", idps["partner"], scim_token=TOKEN)
    async for started in running(tmp_path, upstream, corp, partner, workers=2):
        yield started


async def signed_in(gate: RunningGate, client: httpx.AsyncClient, idp: FakeIdP, id: str) -> None:
    """Alice, at this provider."""
    offered = await led_to(client, gate.url(AUTHENTICATE_HOST, f"/.gate/?gate_idp={id}"), idp.issuer)
    callback = idp.pick(offered, "alice")
    assert (await follow(client, await client.get(callback, headers=HTML))).status_code == 200


async def received(gate: RunningGate, path: str) -> str:
    address = yaml.safe_load(gate.config_file.read_text())["metrics_address"]
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        return (await client.get(f"http://{address}/{path}")).text


async def statuses(gate: RunningGate, client: httpx.AsyncClient) -> list[int]:
    """At the hosts for staff, for guests and for the group that both have a name for."""
    answers = [await follow(client, await client.get(gate.url(host), headers=HTML)) for host in (STAFF, GUESTS, SHARED)]
    return [answer.status_code for answer in answers]


async def test_a_rule_is_met_by_the_groups_of_one_s_own_directory_alone(gate: RunningGate, idps: dict[str, FakeIdP]) -> None:
    for id in ("corp", "partner"):
        await asyncio.to_thread(gate.wait_for_event, "directory sync completed", lambda line, id=id: line["provider"] == id)
    async with gate.client() as employee, gate.client() as guest:
        await signed_in(gate, employee, idps["corp"], "corp")
        await signed_in(gate, guest, idps["partner"], "partner")
        assert await statuses(gate, employee) == [200, 403, 200]
        assert await statuses(gate, guest) == [403, 200, 403]
        await follow(guest, await guest.get(gate.url(OPEN), headers=HTML))
        headers = (await guest.get(gate.url(OPEN), headers={"Accept": "application/json"})).text
        assert "guests" in headers
        assert "staff" not in headers
        assert "ceo@corp.example" not in headers, "an address outside the provider's domains"
        account = (await guest.get(gate.url(AUTHENTICATE_HOST, "/.gate/"), headers={"Accept": "application/json"})).json()
        assert [group["id"] for group in account["groups"]] == ["guests"]
        # gate follows the operator's file; the file changes no user of partner.
        (gate.config_file.parent / "people.yaml").write_text("users: [{id: corp/alice, groups: [guests]}]")
        await eventually_equal(lambda: statuses(gate, employee), [403, 200, 403])
        assert await statuses(gate, guest) == [403, 200, 403]


async def test_each_directory_is_displayed(gate: RunningGate, idps: dict[str, FakeIdP]) -> None:
    await asyncio.to_thread(gate.wait_for_event, "directory sync completed", lambda line: line["provider"] == "partner")
    outcome = await asyncio.to_thread(run, "manage.py", "syncdirectory", "--json", "-config", gate.config_file)
    assert outcome.returncode == 0, outcome.stderr
    found = json.loads(outcome.stdout[outcome.stdout.index("{") :])
    assert {id: (run["users"], run["source"].partition(" ")[0]) for id, run in found.items()} == {
        "corp": (1, "directory_file"),
        "partner": (5, "okta"),
    }
    async with gate.client() as client:
        assert "partner synced at" in await received(gate, "readyz")
        await signed_in(gate, client, idps["corp"], "corp")
        dashboard = (await follow(client, await client.get(gate.url(AUTHENTICATE_HOST, "/.gate/admin/"), headers=HTML))).text
        assert "corp: Read" in dashboard
        assert "partner: Read" in dashboard
    lines = (await received(gate, "metrics")).splitlines()
    assert [line for line in lines if line.startswith("gate_directory_last_success") and 'provider="partner"' in line]


async def test_a_directory_that_is_away_costs_the_others_nothing_and_is_named(
    idps: dict[str, FakeIdP], okta: ByName, gate: RunningGate
) -> None:
    await asyncio.to_thread(gate.wait_for_event, "directory sync completed", lambda line: line["provider"] == "partner")
    changed = entries(idps, okta)
    changed[1]["directory_url"] = f"http://127.0.0.1:{free_port()}"
    # The timeout ends the synchronization, because its six tries would take half a minute.
    await asyncio.to_thread(reload, gate, identity_providers=changed, idp_refresh_directory_timeout="1s")
    async with gate.client() as employee:
        await signed_in(gate, employee, idps["corp"], "corp")
        assert await statuses(gate, employee) == [200, 403, 200]
        for _ in range(400):
            ready = await received(gate, "readyz")
            if "groups of partner grow old" in ready:
                break
            await asyncio.sleep(0.05)
        assert "groups of partner not updated since" in ready
        assert ready.startswith("ready"), "requests are judged all the same"


async def test_a_directory_that_is_removed_takes_its_groups_along_and_no_others(
    idps: dict[str, FakeIdP], okta: ByName, gate: RunningGate
) -> None:
    await asyncio.to_thread(gate.wait_for_event, "directory sync completed", lambda line: line["provider"] == "partner")
    async with gate.client() as employee, gate.client() as guest:
        await signed_in(gate, employee, idps["corp"], "corp")
        await signed_in(gate, guest, idps["partner"], "partner")
        assert await statuses(gate, guest) == [403, 200, 403]
        changed = entries(idps, okta)
        changed[1] = {key: value for key, value in changed[1].items() if key not in ("service_account", "directory_url")}
        await asyncio.to_thread(reload, gate, identity_providers=changed)
        assert await statuses(gate, guest) == [403, 403, 403]
        assert await statuses(gate, employee) == [200, 403, 200]
        line = "records of removed directory deleted"
        await asyncio.to_thread(gate.wait_for_event, line, lambda line: line["provider"] == "partner")
        await asyncio.to_thread(reload, gate, identity_providers=entries(idps, okta))
        await eventually_equal(lambda: statuses(gate, guest), [403, 200, 403])


async def push(gate: RunningGate, path: str, document: dict[str, Any], method: str = "POST") -> dict[str, Any]:
    """The response to partner's SCIM client."""
    async with gate.client() as client:
        url = gate.url(AUTHENTICATE_HOST, f"/.gate/scim/v2/{path}")
        answer = await client.request(method, url, json=document, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


async def test_records_pushed_by_hostile_provider_apply_to_its_users_only(pushed: RunningGate, idps: dict[str, FakeIdP]) -> None:
    await asyncio.to_thread(pushed.wait_for_event, "directory sync completed", lambda line: line["provider"] == "corp")
    async with pushed.client() as employee, pushed.client() as guest:
        await signed_in(pushed, employee, idps["corp"], "corp")
        await signed_in(pushed, guest, idps["partner"], "partner")
        assert await statuses(pushed, guest) == [403, 403, 403]
        email = {"emails": [{"value": "boss@corp.example"}]}
        names = ("alice", "corp/alice", "../corp/alice", "partner/alice")
        users = {name: (await push(pushed, "Users", {"userName": name, "externalId": name, **email}))["id"] for name in names}
        all_users = [{"value": id} for id in users.values()]
        # One group has the name of an allowed group without members, another that of a group in corp's file.
        await push(pushed, "Groups", {"displayName": "guests", "externalId": "guests", "members": all_users})
        await eventually_equal(lambda: statuses(pushed, guest), [403, 200, 403])
        assert await statuses(pushed, employee) == [200, 403, 200]
        headers = (await guest.get(pushed.url(GUESTS), headers={"Accept": "application/json"})).text
        assert "boss@corp.example" not in headers
        # It puts everybody out, by any name: its own alice goes, and corp's stays.
        for id in users.values():
            await push(pushed, f"Users/{id}", {"Operations": [{"op": "replace", "path": "active", "value": False}]}, "PATCH")
        async with asyncio.timeout(20):
            while (await guest.get(pushed.url(OPEN), headers=HTML)).status_code != 302:
                await asyncio.sleep(0.05)
        assert await statuses(pushed, employee) == [200, 403, 200]
        listed = await push(pushed, "Users/.search", {})
        assert {user["userName"] for user in listed["Resources"]} == set(names)


async def test_removed_scim_token_removes_records(pushed: RunningGate, idps: dict[str, FakeIdP]) -> None:
    user = await push(pushed, "Users", {"userName": "alice", "externalId": "alice"})
    await push(pushed, "Groups", {"displayName": "guests", "externalId": "guests", "members": [{"value": user["id"]}]})
    async with pushed.client() as guest:
        await signed_in(pushed, guest, idps["partner"], "partner")
        assert await statuses(pushed, guest) == [403, 200, 403]
        corp, partner = entry("corp", idps["corp"], directory_file="people.yaml"), entry("partner", idps["partner"])
        await asyncio.to_thread(reload, pushed, identity_providers=[corp, partner])
        assert await statuses(pushed, guest) == [403, 403, 403]
        line = "records of removed directory deleted"
        await asyncio.to_thread(pushed.wait_for_event, line, lambda line: line["provider"] == "partner")
        await asyncio.to_thread(reload, pushed, identity_providers=[corp, {**partner, "scim_token": TOKEN}])
        assert (await push(pushed, "Users/.search", {}))["totalResults"] == 0
        assert await statuses(pushed, guest) == [403, 403, 403], "until it is pushed again"


async def test_split_services_read_each_directory_in_one_process(
    idps: dict[str, FakeIdP], okta: ByName, upstream: SampleUpstream, tmp_path: Path
) -> None:
    """Only authenticate has the credentials of the vendor's directory; authorize assumes that another service has them."""
    (tmp_path / "people.yaml").write_text("users: [{id: alice, groups: [staff, shared]}]")
    known = entries(idps, okta)
    known[0]["directory_file"] = str(tmp_path / "people.yaml")
    public = [{name: value for name, value in each.items() if name != "service_account"} for each in known]
    policy: list[dict[str, Any]] = [{"prefix": f"/{group}/", "allowed_groups": [group]} for group in ("staff", "guests")]
    policy.append({"prefix": "/", "policy": [{"allow": {"and": [{"groups": {"not_in": ["staff"]}}]}}]})
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        split = Split(tmp_path, "https://not-used.invalid", redis, [{"to": upstream.url, **route} for route in policy], database_url="")
        for service in ("authenticate", "authorize", "proxy"):
            left_out = ("idp_", "groups_claim", "database_url")
            stored = {name: value for name, value in split.settings[service].items() if not name.startswith(left_out)}
            split.settings[service] = {**stored, "identity_providers": known if service == "authenticate" else public}
        await asyncio.to_thread(stack.enter_context, split)
        expected = {"corp": [200, 403, 403], "partner": [403, 200, 200]}
        for id, idp in idps.items():
            async with split.client() as client:
                start = f"https://{AUTHENTICATE_HOST}:{split.ports['authenticate']}/.gate/?gate_idp={id}"
                offered = await led_to(client, start, idp.issuer)
                callback = idp.pick(offered, "alice")
                assert (await follow(client, await client.get(callback, headers=HTML))).status_code == 200
                async with asyncio.timeout(30):
                    while (
                        found := [
                            (await follow(client, await client.get(split.url(path), headers=HTML))).status_code
                            for path in ("/staff/", "/guests/", "/")
                        ]
                    ) != expected[id]:
                        await asyncio.sleep(0.05)
                assert found == expected[id]
        async with asyncio.timeout(30):
            while len(read := read_in(split)) < 2:
                await asyncio.sleep(0.05)
        assert sorted(read) == ["corp", "partner"]


def read_in(split: Split) -> list[str]:
    """The providers whose directory some process has read, each as often as it was."""
    return [
        line["provider"] for child in split.children.values() for line in child.events if line.get("event") == "directory sync completed"
    ]
