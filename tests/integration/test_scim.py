"""A provider pushes its people to the running product: groups count at once, and a deactivation ends a session at once."""

from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest

from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, sign_in
from tests.support.redis_server import RedisServer
from tests.support.upstream import SampleUpstream

TOKEN = "a-random-token-0123456789-abcdefghij"
APP, GROUP, DENIED = "app.localhost", "group.localhost", "denied.localhost"


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    directory = tmp_path_factory.mktemp("gate")
    token_file = directory / "scim-token"
    token_file.write_text(TOKEN + "\n")
    with RedisServer(directory / "redis") as redis:
        builder = GateBuilder(provider.url).route(APP, to=upstream.url, allow_any_authenticated_user=True)
        builder.route(GROUP, to=upstream.url, allowed_groups=["g-1"])
        builder.route(DENIED, to=upstream.url, allow_any_authenticated_user=True, policy=[{"deny": {"and": [{"groups": {"in": ["g-9"]}}]}}])
        builder.setting(scim_token_file=str(token_file), groups_claim="", databroker_storage_type="kvstore")
        with builder.setting(databroker_storage_connection_string=redis.url).start(directory) as running:
            yield running


async def push(
    client: httpx.AsyncClient, gate: RunningGate, method: str, path: str, document: Any = None, token: str = TOKEN
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/scim+json"}
    return await client.request(method, gate.url(gate.builder.authenticate_host, f"/.gate/scim/v2/{path}"), json=document, headers=headers)


async def test_a_pushed_group_lets_in_and_a_deactivation_shuts_out(gate: RunningGate) -> None:
    async with gate.client() as alice, gate.client() as pusher:
        assert (await sign_in(alice, gate.url(GROUP), "alice")).status_code == 403
        user = (await push(pusher, gate, "POST", "Users", {"userName": "alice@example.com", "externalId": "alice"})).json()
        members = [{"value": user["id"]}]
        created = await push(pusher, gate, "POST", "Groups", {"displayName": "Guides", "externalId": "g-1", "members": members})
        assert created.status_code == 201
        assert (await alice.get(gate.url(GROUP), headers=HTML)).status_code == 200
        off = {"Operations": [{"op": "Replace", "path": "active", "value": "False"}]}
        assert (await push(pusher, gate, "PATCH", f"Users/{user['id']}", off)).json()["active"] is False
        for host in (GROUP, APP):
            assert (await alice.get(gate.url(host), headers=HTML)).status_code == 302
        alice.cookies.clear()
        refused = await sign_in(alice, gate.url(APP), "alice")
        assert (refused.status_code, "deactivated" in refused.text) == (403, True)
    gate.wait_for_event("SCIM resource changed", lambda entry: entry.get("is_active") is False)


async def test_user_without_scim_record_does_not_pass_a_group_deny(gate: RunningGate) -> None:
    async with gate.client() as carol, gate.client() as pusher:
        assert (await sign_in(carol, gate.url(DENIED), "carol")).status_code == 403
        assert (await follow(carol, await carol.get(gate.url(APP), headers=HTML))).status_code == 200
        user = (await push(pusher, gate, "POST", "Users", {"userName": "carol@example.com", "externalId": "carol"})).json()
        assert (await carol.get(gate.url(DENIED), headers=HTML)).status_code == 200
        group = {"displayName": "Out", "externalId": "g-9", "members": [{"value": user["id"]}]}
        created = await push(pusher, gate, "POST", "Groups", group)
        assert (await carol.get(gate.url(DENIED), headers=HTML)).status_code == 403
        for path in (f"Groups/{created.json()['id']}", f"Users/{user['id']}"):
            assert (await push(pusher, gate, "DELETE", path)).status_code == 204


USER = "urn:ietf:params:scim:schemas:core:2.0:User"


@pytest.mark.parametrize(
    ("method", "document"),
    [
        ("PUT", {"userName": "bob@example.com", "externalId": "bob"}),
        ("PUT", {"userName": "bob@example.com", "externalId": "bob", "active": None}),
        ("PATCH", {"Operations": [{"op": "remove", "path": "active"}]}),
        ("PATCH", {"Operations": [{"op": "replace", "path": f"{USER}:active", "value": None}]}),
        ("PATCH", {"Operations": [{"op": "replace", "value": {USER: {"active": None, "title": "x"}}}]}),
    ],
)
async def test_update_without_active_does_not_reactivate(gate: RunningGate, method: str, document: Any) -> None:
    async with gate.client() as bob, gate.client() as pusher:
        user = (await push(pusher, gate, "POST", "Users", {"userName": "bob@example.com", "externalId": "bob"})).json()
        off = {"Operations": [{"op": "replace", "value": {USER: {"active": False}}}]}
        assert (await push(pusher, gate, "PATCH", f"Users/{user['id']}", off)).json()["active"] is False
        assert (await push(pusher, gate, method, f"Users/{user['id']}", document)).status_code == 200
        refused = await sign_in(bob, gate.url(APP), "bob")
        assert (refused.status_code, "deactivated" in refused.text) == (403, True)
        assert (await push(pusher, gate, "DELETE", f"Users/{user['id']}")).status_code == 204


class OnLoopback(httpx2.HTTPTransport):
    """Every name is this machine."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.extensions = {**request.extensions, "sni_hostname": request.url.host}
        request.url = request.url.copy_with(host="127.0.0.1")
        return super().handle_request(request)


def test_an_outside_reading_of_the_standards_finds_nothing(gate: RunningGate) -> None:
    # Two seconds, which each process would need that only collects this test.
    from scim2_client.engines.httpx2 import SyncSCIMClient
    from scim2_tester import Status, check_server
    from scim2_tester.utils import get_registered_tags

    base_url = gate.url(gate.builder.authenticate_host, "/.gate/scim/v2")
    transport = OnLoopback(verify=gate.certificates.client_context(), trust_env=False)
    with httpx2.Client(base_url=base_url, transport=transport, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        results = check_server(SyncSCIMClient(client))
    assert [(each.title, each.resource_type, each.reason) for each in results if each.status != Status.SUCCESS] == []
    # All of its kinds, on everything that gate says it has.
    assert get_registered_tags() - {"*"} == {tag for each in results for tag in each.tags or ()} - {"*"}
    assert {each.resource_type for each in results if each.resource_type} == {"User", "Group"}


async def test_long_body_requires_token(gate: RunningGate) -> None:
    members = [{"value": f"nobody-{number:06}"} for number in range(5000)]
    large = {"displayName": "large", "externalId": "g-2", "members": members}
    async with gate.client() as client:
        assert (await push(client, gate, "POST", "Groups", large, token="x" * 36)).status_code == 413
        assert (await push(client, gate, "POST", "Groups", {"displayName": "x"}, token="x" * 36)).status_code == 401
        assert (await push(client, gate, "POST", "Groups", {"displayName": "x" * (3 << 20)})).status_code == 413
        answer = await push(client, gate, "POST", "Groups", large)
        assert (answer.status_code, answer.json()["members"]) == (201, [])


async def test_it_is_at_the_authenticate_host_only(gate: RunningGate) -> None:
    async with gate.client() as client:
        answer = await client.get(gate.url(APP, "/.gate/scim/v2/Users"), headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 404


async def test_the_token_is_not_in_the_log(gate: RunningGate) -> None:
    async with gate.client() as client:
        await push(client, gate, "GET", "Users")
        await push(client, gate, "GET", "Users", token=TOKEN + "x")
    gate.wait_for_event("SCIM request rejected", lambda entry: "request_id" in entry)
    assert TOKEN not in gate.child.output
