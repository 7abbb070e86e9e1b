"""The configuration names another issuer: sessions of the previous issuer grant nothing, also to a user with the same id there."""

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest

from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, FakeIdP
from tests.support.gate import AUTHENTICATE_HOST, HTML, GateBuilder, RunningGate, follow, led_to
from tests.support.reloading import reload
from tests.support.upstream import SampleUpstream

APP, ALICE, TEAM, PUSHED, OTHER, FORWARD = (f"{name}.localhost" for name in ("app", "alice", "team", "pushed", "other", "forward"))
SCIM_TOKEN = "a-random-token-0123456789-abcdefghij"
BACK = "http://localhost:9/back?state=mine"


@pytest.fixture
async def idps() -> AsyncIterator[tuple[FakeIdP, FakeIdP]]:
    """Two of one kind, at which different people are called alice."""
    first, second = await FakeIdP.started(), await FakeIdP.started()
    for idp, word in ((first, "first"), (second, "second")):
        idp.bend.claims = idp.bend.userinfo = {"email": f"alice@{word}.example", "groups": [f"of-{word}"], "nickname": word}
    second.bend.userinfo = dict(second.bend.userinfo)
    yield first, second
    await first.stop()
    await second.stop()


@pytest.fixture(params=["embedded", "envoy"])
async def gate(
    request: pytest.FixtureRequest, idps: tuple[FakeIdP, FakeIdP], upstream: SampleUpstream, tmp_path: Path
) -> AsyncIterator[RunningGate]:
    builder = GateBuilder(idps[0].issuer)
    builder.route(APP, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
    builder.route(ALICE, to=upstream.url, allowed_users=["oidc/alice"])
    builder.route(TEAM, to=upstream.url, allowed_groups=["of-first"])
    builder.route(PUSHED, to=upstream.url, allowed_groups=["g-1"])
    builder.route(OTHER, to=upstream.url, allow_any_authenticated_user=True)
    builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, admin_allowed_users=["alice"], groups_claim="groups")
    builder.setting(jwt_claims_headers=["email", "groups", "nickname"], forward_auth_url=builder.url(FORWARD, ""))
    builder.setting(data_plane=request.param, scim_token=SCIM_TOKEN)
    with builder.start(tmp_path) as running:
        yield running


async def at_provider(client: httpx.AsyncClient, idp: FakeIdP, url: str) -> str:
    """The callback to which the provider leads who opens this."""
    offered = await led_to(client, url, idp.issuer)
    return idp.pick(offered, "alice")


async def sign_in(gate: RunningGate, client: httpx.AsyncClient, idp: FakeIdP) -> None:
    callback = await at_provider(client, idp, gate.url(APP))
    assert (await follow(client, await client.get(callback, headers=HTML))).status_code == 200


async def program_token(gate: RunningGate, client: httpx.AsyncClient) -> str:
    url = (await client.get(gate.url(APP, f"/.gate/api/v1/login?gate_redirect_uri={quote(BACK, safe='')}"))).text
    page = await follow(client, await client.get(url, headers=HTML))
    fields = {name: unescape(value) for name, value in re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page.text)}
    answer = await client.post(page.url, data=fields, headers={**HTML, "Origin": gate.url(AUTHENTICATE_HOST, "")})
    while not answer.headers["location"].startswith(BACK):
        answer = await client.send(answer.next_request)
    return parse_qs(urlsplit(answer.headers["location"]).query)["gate_jwt"][0]


async def ways_in(gate: RunningGate, client: httpx.AsyncClient, token: str) -> dict[str, bool]:
    """Whether each way in still authenticates this browser and its program."""
    requested_elsewhere = f"/verify?uri={quote(gate.url(APP), safe='')}"
    cookie = "; ".join(f"{each.name}={each.value}" for each in client.cookies.jar if each.domain.startswith("app."))
    async with gate.client() as other:
        answers = {
            "page": await client.get(gate.url(APP, "/x"), headers=HTML),
            "a rule": await client.get(gate.url(ALICE, "/x"), headers=HTML),
            "assertion": await client.get(gate.url(APP, "/.gate/jwt"), headers=HTML),
            "program": await other.get(gate.url(APP, "/x"), headers={"Authorization": f"Gate {token}"}),
            "query": await other.get(gate.url(APP, f"/x?gate_session={token}")),
            "forward auth": await other.get(gate.url(FORWARD, requested_elsewhere), headers={"Cookie": cookie}),
            "dashboard": await client.get(gate.url(AUTHENTICATE_HOST, "/.gate/"), headers={"Accept": "application/json"}),
            "admin": await client.get(gate.url(AUTHENTICATE_HOST, "/.gate/admin/"), headers=HTML),
        }
    return {way: answer.status_code == 200 for way, answer in answers.items()}


async def until_cut(chunks: AsyncIterator[bytes]) -> None:
    """Wait until gate ends the stream of a session that is no longer valid."""
    async with asyncio.timeout(20):
        async for _ in chunks:
            pass


def received(page: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in page.json()["headers"] if name.startswith("x-gate-claim-")}


async def test_a_session_counts_only_while_its_issuer_is_the_configured_one(
    gate: RunningGate, idps: tuple[FakeIdP, FakeIdP], upstream: SampleUpstream
) -> None:
    first, second = idps
    async with gate.client() as old, gate.client() as new, gate.client() as late:
        await sign_in(gate, old, first)
        for host in (ALICE, TEAM):
            assert (await follow(old, await old.get(gate.url(host), headers=HTML))).status_code == 200
        token = await program_token(gate, old)
        await follow(old, await old.get(gate.url(AUTHENTICATE_HOST, "/.gate/admin/"), headers=HTML))
        assert all((await ways_in(gate, old, token)).values()), await ways_in(gate, old, token)
        mine = received(await old.get(gate.url(APP), headers=HTML))
        assert mine == {"x-gate-claim-email": "alice@first.example", "x-gate-claim-groups": "of-first", "x-gate-claim-nickname": "first"}
        # Led as far as the link that hands the session over to another host, and not followed yet.
        handed = await old.get(gate.url(OTHER), headers=HTML)
        while "/.gate/callback/" not in handed.headers["location"]:
            handed = await old.send(handed.next_request)
        half_way = await at_provider(late, first, gate.url(APP))

        async with old.stream("GET", gate.url(APP, "/drip"), headers=HTML) as download:
            chunks = download.aiter_raw()
            assert await anext(chunks)
            reload(gate, idp_provider_url=second.issuer)
            with pytest.raises(httpx.TransportError):
                await until_cut(chunks)
        before = upstream.hits
        assert not any((await ways_in(gate, old, token)).values()), await ways_in(gate, old, token)
        assert (await old.send(handed.next_request)).status_code == 400
        assert (await late.get(half_way, headers=HTML)).status_code == 400
        assert upstream.hits == before
        entry = gate.wait_for_event("session ignored: issuer mismatch")
        assert (entry["user_id"], entry["issuer"]) == ("oidc/alice", first.issuer)

        await sign_in(gate, new, second)
        assert received(await new.get(gate.url(APP), headers=HTML)) == {
            "x-gate-claim-email": "alice@second.example",
            "x-gate-claim-groups": "of-second",
            "x-gate-claim-nickname": "second",
        }
        assert (await follow(new, await new.get(gate.url(TEAM), headers=HTML))).status_code == 403
        assert not any((await ways_in(gate, old, token)).values())

        reload(gate, idp_provider_url=first.issuer)
        # The person's record is by now the second alice's: of the first one's session nothing of it counts.
        stored = received(await old.get(gate.url(APP), headers=HTML))
        assert stored == {"x-gate-claim-groups": "of-first", "x-gate-claim-nickname": "first"}
        assert (await new.get(gate.url(APP), headers=HTML)).status_code == 302


async def push(gate: RunningGate, method: str, path: str, document: Any) -> str:
    """The resource's id."""
    async with gate.client() as client:
        url = gate.url(AUTHENTICATE_HOST, f"/.gate/scim/v2/{path}")
        answer = await client.request(method, url, json=document, headers={"Authorization": f"Bearer {SCIM_TOKEN}"})
    assert answer.is_success, answer.text
    return str(answer.json()["id"])


async def status(gate: RunningGate, client: httpx.AsyncClient, host: str) -> int:
    return (await follow(client, await client.get(gate.url(host), headers=HTML))).status_code


async def test_records_pushed_for_one_issuer_grant_nothing_to_another(gate: RunningGate, idps: tuple[FakeIdP, FakeIdP]) -> None:
    first, second = idps
    account = {"userName": "alice@corp.example", "externalId": "alice"}
    user = await push(gate, "POST", "Users", account)
    team = {"displayName": "Guides", "externalId": "g-1", "members": [{"value": user}]}
    group = await push(gate, "POST", "Groups", team)
    async with gate.client() as old, gate.client() as new, gate.client() as late:
        await sign_in(gate, old, first)
        assert await status(gate, old, PUSHED) == 200

        reload(gate, idp_provider_url=second.issuer)
        await sign_in(gate, new, second)
        assert await status(gate, new, PUSHED) == 403
        page = await new.get(gate.url(AUTHENTICATE_HOST, "/.gate/"), headers={"Accept": "application/json"})
        assert [each["id"] for each in page.json()["groups"]] == ["of-second"]

        reload(gate, idp_provider_url=first.issuer)
        assert await status(gate, old, PUSHED) == 200, "taken back, nothing is lost"
        await push(gate, "PATCH", f"Users/{user}", {"Operations": [{"op": "replace", "value": {"active": False}}]})
        assert (await old.get(gate.url(APP), headers=HTML)).status_code == 302

        reload(gate, idp_provider_url=second.issuer)
        await sign_in(gate, late, second)
        await push(gate, "PUT", f"Users/{user}", {**account, "active": True})
        assert await status(gate, late, PUSHED) == 403, "of the groups the second provider has said nothing"
        await push(gate, "PUT", f"Groups/{group}", team)
        assert await status(gate, late, PUSHED) == 200
