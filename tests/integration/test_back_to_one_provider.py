"""From several identity providers back to the keys of one, and again to several, at a reload and at a restart: user ids stay stable."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.demo.people import ALICE, BOB
from tests.support.development_provider import DevelopmentProvider, pick_user
from tests.support.eventually import eventually_equal
from tests.support.gate import AUTHENTICATE_HOST, HTML, GateBuilder, RunningGate, follow, status_or_cut
from tests.support.provider_selection import IDP_KEYS, OPEN, entry
from tests.support.reloading import rewrite, wait_for_event
from tests.support.upstream import SampleUpstream

BOSS, TEAM, STAFF = "boss.localhost", "team.localhost", "staff.localhost"
HOSTS = (OPEN, BOSS, TEAM, STAFF)
ENDED = "sessions of removed identity provider ended"
DELETED = "records of removed directory deleted"
REFUSED = "configuration rejected"
Providers = dict[str, DevelopmentProvider]


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    """Both providers have a user alice with the address alice@example.com; only the first may assert that address."""
    with DevelopmentProvider([ALICE, BOB]) as corp, DevelopmentProvider([replace(ALICE, groups=())]) as partner:
        yield {"oidc": corp, "partner": partner}


class Stage:
    """A gate that takes over each configuration by a reload, or by a restart."""

    def __init__(self, builder: GateBuilder, directory: Path, *, restarts: bool):
        self.builder = builder
        self.gate = builder.start(directory)
        self._directory = directory
        self._restarts = restarts
        self._before = 0

    def take_over(self, **settings: Any) -> None:
        self.builder.setting(**settings)
        if self._restarts:
            self.gate.__exit__()
            self.gate = self.builder.start(self._directory)
            self._before = 0
        else:
            self._before = len(self.gate.log)
            with wait_for_event(self.gate, "configuration reloaded"):
                rewrite(self.gate.config_file, **settings)

    def received(self, event: str, **output: Any) -> None:
        """Return when the log has this of the configuration in force."""
        self.gate.child.wait_for(
            lambda: any(each["event"].startswith(event) and output.items() <= each.items() for each in self.gate.log[self._before :]), event
        )

    @asynccontextmanager
    async def browser(self, cookies: httpx.Cookies | None = None) -> AsyncIterator[httpx.AsyncClient]:
        async with self.gate.client(cookies=cookies) as client:
            yield client


async def led_to(gate: RunningGate, client: httpx.AsyncClient, id: str, provider: DevelopmentProvider) -> httpx.Response:
    """The provider's page at which people say who they are."""
    offered = await follow(client, await client.get(gate.url(AUTHENTICATE_HOST, f"/.gate/?gate_idp={id}"), headers=HTML))
    assert str(offered.url).startswith(provider.url)
    return offered


async def signed_in(stage: Stage, id: str, provider: DevelopmentProvider) -> httpx.Cookies:
    async with stage.browser() as client:
        offered = await led_to(stage.gate, client, id, provider)
        assert (await follow(client, await pick_user(client, offered, "alice"))).status_code == 200
        for host in HOSTS:
            await follow(client, await client.get(stage.gate.url(host), headers=HTML))
        return client.cookies


async def opened(stage: Stage, cookies: httpx.Cookies) -> list[int]:
    """The status of each host; 302 means that the request is anonymous."""
    async with stage.browser(cookies) as client:
        return [(await client.get(stage.gate.url(host), headers=HTML)).status_code for host in HOSTS]


async def until(stage: Stage, cookies: httpx.Cookies, expected: list[int]) -> None:
    await eventually_equal(lambda: opened(stage, cookies), expected)


async def name_of(stage: Stage, cookies: httpx.Cookies) -> tuple[str, str]:
    """Id and address in the identity headers that the application receives."""
    async with stage.browser(cookies) as client:
        headers = dict((await client.get(stage.gate.url(OPEN), headers=HTML)).json()["headers"])
    return headers["x-gate-claim-user"], headers.get("x-gate-claim-email", "")


@pytest.mark.parametrize("restarts", [False, True], ids=["reload", "restart"])
async def test_return_to_single_provider_keys_changes_no_user(
    restarts: bool, providers: Providers, upstream: SampleUpstream, tmp_path: Path
) -> None:
    for id, group in (("oidc", "staff"), ("partner", "team")):
        (tmp_path / f"{id}.yaml").write_text(f"users: [{{id: alice, groups: [{group}]}}]")
    entries = [
        entry("oidc", providers["oidc"], "example.com", directory_file="oidc.yaml"),
        entry("partner", providers["partner"], "partner.example", directory_file="partner.yaml"),
    ]
    of_one = {"idp_provider": "oidc", "idp_provider_url": providers["oidc"].url, "idp_client_id": "gate-tests"}
    of_one |= {"idp_client_secret": "not a secret", "idp_scopes": ["openid", "profile", "email"], "directory_file": "oidc.yaml"}
    back = {**of_one, "identity_providers": None}
    there = {**dict.fromkeys([*IDP_KEYS, "directory_file"]), "identity_providers": entries}
    builder = GateBuilder("https://not-used.invalid").setting(**there, databroker_storage_type="database", groups_claim=None)
    builder.setting(jwt_claims_headers=["email", "user"])
    builder.route(OPEN, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
    builder.route(BOSS, to=upstream.url, allowed_users=["alice@example.com"])
    builder.route(TEAM, to=upstream.url, allowed_groups=["team"])
    builder.route(STAFF, to=upstream.url, allowed_groups=["staff"])
    stage = Stage(builder, tmp_path, restarts=restarts)
    try:
        employee, guest = [await signed_in(stage, id, provider) for id, provider in providers.items()]
        await until(stage, employee, [200, 200, 403, 200])
        await until(stage, guest, [200, 403, 200, 403])
        names = [await name_of(stage, each) for each in (employee, guest)]
        assert names == [("oidc/alice", "alice@example.com"), ("partner/alice", "")]
        async with stage.browser() as late:
            half_way = await pick_user(late, await led_to(stage.gate, late, "partner", providers["partner"]), "alice")
            started = late.cookies

        stage.take_over(**back)
        assert await opened(stage, guest) == [302] * 4, "from the first request on"
        stage.received(ENDED, provider="partner", sessions=1)
        await until(stage, employee, [200, 200, 403, 200])
        assert await name_of(stage, employee) == names[0]
        async with stage.browser(started) as late:
            refused = await late.get(half_way.headers["location"], headers=HTML)
            assert refused.status_code == 400
        assert await opened(stage, started) == [302] * 4
        newcomer = await signed_in(stage, "oidc", providers["oidc"])
        assert await name_of(stage, newcomer) == names[0]

        stage.take_over(**there)
        for each in (employee, newcomer):
            await until(stage, each, [200, 200, 403, 200])
            assert await name_of(stage, each) == names[0]
        assert await opened(stage, guest) == [302] * 4, "its provider's return restores no session"
        again = await signed_in(stage, "partner", providers["partner"])
        await until(stage, again, [200, 403, 200, 403])
        assert await name_of(stage, again) == names[1]
    finally:
        stage.gate.__exit__()


async def test_changed_subject_requires_sign_in(providers: Providers, upstream: SampleUpstream, tmp_path: Path) -> None:
    """An entry that is not called as its kind is another provider, whose people are others."""
    (tmp_path / "people.yaml").write_text("users: [{id: alice, groups: [staff]}]")
    entries = [
        entry("corp", providers["oidc"], "example.com", directory_file="people.yaml"),
        entry("oidc", providers["partner"], "partner.example"),
    ]
    of_one = {"idp_provider": "oidc", "idp_provider_url": providers["oidc"].url, "idp_client_id": "gate-tests"}
    of_one |= {"idp_client_secret": "not a secret", "idp_scopes": ["openid", "profile", "email"]}
    there = {**dict.fromkeys(IDP_KEYS), "identity_providers": entries}
    builder = GateBuilder("https://not-used.invalid").setting(**there, jwt_claims_headers=["email", "user"])
    for host, keys in ((OPEN, {"allow_any_authenticated_user": True}), (BOSS, {"allowed_users": ["oidc/alice"]})):
        builder.route(host, to=upstream.url, pass_identity_headers=True, **keys)
    for host in (TEAM, STAFF):
        builder.route(host, to=upstream.url, allowed_users=["alice@example.com"], identity_providers=["corp"] if host == TEAM else [])
    stage = Stage(builder, tmp_path, restarts=False)
    try:
        stage.received("directory sync completed", provider="corp")
        employee = await signed_in(stage, "corp", providers["oidc"])
        guest = await signed_in(stage, "oidc", providers["partner"])
        assert await opened(stage, employee) == [200, 403, 200, 200]
        assert await opened(stage, guest) == [200, 200, 403, 403]
        with wait_for_event(stage.gate, REFUSED) as refused:
            rewrite(stage.gate.config_file, **of_one, identity_providers=None)
        assert "unknown provider 'corp'" in str(refused)
        assert await opened(stage, guest) == [200, 200, 403, 403], "a rule that names an entry keeps the configuration out, as a whole"

        policy = [{name: value for name, value in route.items() if name != "identity_providers"} for route in builder.policy]
        stage.take_over(**of_one, identity_providers=None, policy=policy)
        for each in (employee, guest):
            assert await opened(stage, each) == [302] * 4, "neither is who is called oidc/alice now"
        stage.received(ENDED, provider="corp", sessions=1)
        stage.received(DELETED, provider="corp", users=1)
        newcomer = await signed_in(stage, "oidc", providers["oidc"])
        assert await opened(stage, newcomer) == [200, 200, 200, 200]
        stage.take_over(**there)
        stage.received(ENDED, provider="oidc", sessions=1)
        assert await opened(stage, newcomer) == [302] * 4
        assert await opened(stage, employee) == [302] * 4
        assert await status_or_cut_of(stage, guest) == 200, "who was at the other one of this id all along is there as before"
    finally:
        stage.gate.__exit__()


async def status_or_cut_of(stage: Stage, cookies: httpx.Cookies) -> int | None:
    async with stage.browser(cookies) as client:
        return await status_or_cut(client, stage.gate.url(BOSS), headers=HTML)
