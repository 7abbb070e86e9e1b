"""A certified provider's sign-out, its bearer tokens, and an emulator's Okta directory, with two processes for each service."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest

from foundation.auth_challenges import INVALID_TOKEN
from tests.integration.test_bearer_tokens import tokens_of
from tests.integration.test_provider_sign_out import sign_out_at
from tests.support.certified_provider import CLIENT_ID, CLIENT_SECRET, CertifiedProvider, why_not_here
from tests.support.eventually import PATIENCE, eventually
from tests.support.gate import HTML, follow, status_or_cut
from tests.support.redis_server import RedisServer
from tests.support.split import AUTHENTICATE_HOST, Split
from tests.support.upstream import SampleUpstream
from tests.support.vendors import ALICE, Emulators, OktaAdministration, emulators

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())

PROGRAM = "http://localhost:7000/cb"
KEY = "gate-tests"


@dataclass
class Stage:
    split: Split
    redis: RedisServer
    provider: CertifiedProvider
    okta: OktaAdministration
    alice: str  # as the directory numbers her
    team: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("split")
    with ExitStack() as stack:
        upstream = stack.enter_context(SampleUpstream())
        redis = stack.enter_context(RedisServer(directory / "redis"))
        emulated: Emulators = stack.enter_context(emulators(PROGRAM))
        okta = stack.enter_context(OktaAdministration(emulated.url("okta")))
        alice, team = str(okta.ask("GET", f"/users/{ALICE}")["id"]), okta.new_group("Team")
        okta.ask("PUT", f"/groups/{team}/users/{alice}")
        people = {"to": upstream.url, "pass_identity_headers": True}
        policy = [
            {"prefix": "/team/", "allowed_groups": [team], **people},
            {"prefix": "/id/", "allowed_users": ["okta/alice"], "bearer_token": "idp_id_token", **people},
            {
                "prefix": "/opaque/",
                "allowed_users": ["okta/alice"],
                "bearer_token": "idp_access_token",
                "bearer_token_audience": "*",
                **people,
            },
            {"prefix": "/", "allow_any_authenticated_user": True, **people},
        ]
        split = Split(directory, "http://set.below.invalid", redis, policy, database_url="")
        authenticate = f"https://{AUTHENTICATE_HOST}:{split.ports['authenticate']}"
        report = {"backchannel_logout_uri": f"{authenticate}/.gate/backchannel_logout", "backchannel_logout_session_required": True}
        report |= {"redirect_uris": [f"{authenticate}/oauth2/callback", PROGRAM]}
        provider = stack.enter_context(CertifiedProvider(PROGRAM, **report))
        okta_is = {"idp_provider": "okta", "idp_provider_url": provider.url, "idp_directory_url": emulated.url("okta")}
        for name in ("authenticate", "authorize", "proxy"):
            split.settings[name] |= {**okta_is, "idp_client_id": CLIENT_ID, "jwt_claims_headers": ["user"], "groups_claim": ""}
            split.settings[name].pop("database_url", None)
        split.settings["authenticate"] |= {
            "idp_client_secret": CLIENT_SECRET,
            "idp_scopes": ["openid", "profile", "email"],
            "idp_service_account": b64encode(KEY.encode()).decode(),
            "idp_refresh_directory_interval": "1s",
        }
        yield Stage(stack.enter_context(split), redis, provider, okta, alice, team)


async def signed_in(stage: Stage, client: httpx.AsyncClient, user: str) -> None:
    page = await follow(client, await client.get(stage.split.url(), headers=HTML))
    page = await follow(client, await client.post(page.url, data={"sub": user}))
    assert page.status_code == 200, page.text


async def test_signing_out_at_the_provider_ends_the_session_in_every_process(stage: Stage) -> None:
    async with stage.split.client() as alice, stage.split.client() as bob:
        await signed_in(stage, alice, "alice")
        await signed_in(stage, bob, "bob")
        async with alice.stream("GET", stage.split.url("/drip")) as stream:
            assert stream.status_code == 200
            chunks = stream.aiter_raw()
            await anext(chunks)
            await sign_out_at(stage.provider, alice)

            async def is_out() -> bool:
                """At each proxy, which asks each authorize in turn."""
                answers = [await alice.get(stage.split.url("/.gate/jwt"), headers={"Accept": "application/json"}) for _ in range(4)]
                return {answer.status_code for answer in answers} == {401}

            await eventually(is_out, "every process refuses the session")
            await asyncio.wait_for(to_the_end(chunks), PATIENCE)
        for _ in range(4):
            assert (await bob.get(stage.split.url("/.gate/jwt"))).status_code == 200


async def to_the_end(chunks: AsyncIterator[bytes]) -> None:
    """It is endless: only gate ends it, in the middle."""
    with pytest.raises(httpx.RemoteProtocolError):
        async for _ in chunks:
            pass


async def test_bearer_tokens_on_every_plane(stage: Stage) -> None:
    tokens = await tokens_of(stage.provider)
    async with stage.split.client() as program:

        async def ask(path: str, token: str) -> httpx.Response:
            return await program.get(stage.split.url(path), headers={"Authorization": f"Bearer {token}"})

        for _ in range(2):
            for path, token in (("/id/x", tokens["id_token"]), ("/opaque/x", tokens["access_token"])):
                page = await ask(path, token)
                assert page.status_code == 200, page.text
                received = dict(page.json()["headers"])
                assert received["x-gate-claim-user"] == "okta/alice"
                assert "authorization" not in received
            for path, token in (("/id/x", tokens["access_token"]), ("/opaque/x", tokens["id_token"]), ("/id/x", "made-up-token")):
                refused = await ask(path, token)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, INVALID_TOKEN)
        assert (await ask("/", tokens["id_token"])).status_code == 401
    report = "".join(child.output for child in stage.split.children.values())
    assert not any(token in report for token in (tokens["id_token"], tokens["access_token"]))


async def test_one_process_reads_the_directory_and_another_when_that_is_killed(stage: Stage) -> None:
    def elected() -> list[int]:
        """The authenticates that have read it."""
        return [number for number in (0, 1) if '"directory sync completed"' in stage.split.children["authenticate", number].output]

    async with stage.split.client() as alice:
        await signed_in(stage, alice, stage.alice)

        async def all_report(status: int) -> bool:
            return {await status_or_cut(alice, stage.split.url("/team/"), headers=HTML) for _ in range(4)} == {status}

        await eventually(lambda: all_report(200), "she is in the team")
        (reader,) = elected()
        with stage.split.without(["authenticate"], reader):
            stage.okta.ask("DELETE", f"/groups/{stage.team}/users/{stage.alice}")
            # As if the thirty seconds had passed in which it would have renewed them.
            for lease in ("directory", "directory reading"):
                stage.redis.command("PEXPIRE", f"{{gate}}lease/{lease}", "1")
            await eventually(lambda: all_report(403), "what the other reads counts everywhere")
            assert elected() == [0, 1]
    report = "".join(child.output for child in stage.split.children.values())
    assert KEY not in report
