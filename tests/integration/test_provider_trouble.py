"""The identity provider fails: no user can sign in, and signed-in users notice nothing."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, Answer, FakeIdP, Request
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, led_to, sign_in
from tests.support.upstream import SampleUpstream


async def test_without_the_provider_sign_in_is_a_clear_503_and_running_sessions_go_on(tmp_path: Path, upstream: SampleUpstream) -> None:
    with DevelopmentProvider() as provider:
        builder = GateBuilder(provider.url).route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
        with builder.start(tmp_path) as gate:
            async with gate.client() as alice, gate.client() as bob:
                assert (await sign_in(alice, gate.url("app.localhost"), "alice")).status_code == 200
                # A second start of gate would have nothing cached; what matters is that the provider is gone when it is needed.
                callback = await follow(bob, await bob.get(gate.url("app.localhost"), headers=HTML))
                provider.stop()
                assert (await alice.get(gate.url("app.localhost"), headers=HTML)).status_code == 200
                page = await bob.get(
                    gate.url("authenticate.localhost", "/oauth2/callback"),
                    params={"code": "any", "state": callback.url.params["state"]},
                    headers=HTML,
                )
            assert page.status_code == 503
            assert "nothing changes" in page.text
            assert "Traceback" not in page.text
            gate.wait_for_event("sign-in failed at the identity provider")


async def test_start_without_provider_fails_at_sign_in(tmp_path: Path, upstream: SampleUpstream) -> None:
    builder = GateBuilder("http://127.0.0.1:9").route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    builder.route("public.localhost", to=upstream.url, allow_public_unauthenticated_access=True)
    with builder.start(tmp_path) as gate:
        async with gate.client() as client:
            page = await follow(client, await client.get(gate.url("app.localhost"), headers=HTML))
            public = await client.get(gate.url("public.localhost"))
    assert (page.status_code, public.status_code) == (503, 200)
    assert "try again" in page.text.lower()
    assert page.headers["retry-after"]


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    writer.close()


@pytest.mark.parametrize(("is_there", "message"), [(False, "refused the connection"), (True, "presented an untrusted certificate")])
async def test_why_the_provider_is_away_is_in_the_log_alone(tmp_path: Path, is_there: bool, message: str) -> None:
    """Which words there are for what else: tests/unit/foundation/test_connection_errors.py."""
    port = free_port()
    async with AsyncExitStack() as stack:
        if is_there:
            tls = certificate_files(tmp_path, "localhost").server_context()
            server = await stack.enter_async_context(await asyncio.start_server(_plain, "127.0.0.1", 0, ssl=tls))
            port = server.sockets[0].getsockname()[1]
        builder = GateBuilder(f"https://localhost:{port}")
        builder.route("app.localhost", to="http://127.0.0.1:9", allow_any_authenticated_user=True)
        gate = stack.enter_context(builder.start(tmp_path))
        async with gate.client() as client:
            page = await follow(client, await client.get(gate.url("app.localhost"), headers=HTML))
        assert page.status_code == 503
        # The page names a next step and hides the cause.
        assert "include the request id" in page.text
        assert message not in page.text
        assert message in gate.wait_for_event("sign-in failed at the identity provider")["error"]


class SlowForJunk(FakeIdP):
    """Provider that responds slowly to codes that it never issued."""

    release: asyncio.Event

    def _answer(self, request: Request) -> Answer:
        if request.form.get("code", "").startswith("junk"):
            self.bend.holds[request.path] = self.release
            return Answer.json({"error": "invalid_grant"}, 400)
        self.bend.holds.pop(request.path, None)
        return super()._answer(request)


JUNK = 120  # more than all connections that gate has for sign-ins


async def test_made_up_callbacks_of_one_network_hold_up_neither_sign_ins_of_others_nor_refreshes(
    tmp_path: Path, upstream: SampleUpstream
) -> None:
    idp = await SlowForJunk.started()
    assert isinstance(idp, SlowForJunk)
    idp.release, idp.lifetime = asyncio.Event(), 3
    builder = GateBuilder(idp.issuer).route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, trusted_proxies=["127.0.0.0/8"])
    try:
        with builder.start(tmp_path) as gate:
            async with gate.client() as early, gate.client() as victim, AsyncExitStack() as stack:
                assert (await picked(gate, idp, early, "192.0.2.1")).status_code == 200
                strangers = [await stack.enter_async_context(gate.client()) for _ in range(JUNK)]
                # Before the first of them waits: gate's patience with the provider ends after ten seconds.
                states = await asyncio.gather(*(begin_time(gate, idp, stranger) for stranger in strangers))
                tasks = [asyncio.create_task(junk_callback(gate, idp, *each)) for each in zip(strangers, states, strict=True)]
                turned_away, waiting = 0, set(tasks)
                while turned_away < JUNK - 20:
                    done, waiting = await asyncio.wait(waiting, timeout=30, return_when=asyncio.FIRST_COMPLETED)
                    assert done, f"{turned_away} turned away, {len(waiting)} wait"
                    assert {task.result() for task in done} == {503}
                    turned_away += len(done)
                assert len(waiting) == 20
                refreshed = idp.refreshed
                assert (await picked(gate, idp, victim, "192.0.2.2")).status_code == 200
                await eventually(lambda: idp.refreshed != refreshed)
                assert (await early.get(gate.url("app.localhost"))).status_code == 200
                idp.release.set()
                # The provider's own refusal, or gate's.
                assert {await task for task in waiting} <= {400, 503}
            assert gate.wait_for_event("sign-in rejected: provider concurrency limit")["network"] == "198.51.100.7"
    finally:
        await idp.stop()


async def to_provider(gate: RunningGate, idp: FakeIdP, client: httpx.AsyncClient, address: str) -> str:
    client.headers.update({"Accept": "text/html", "X-Forwarded-For": address})
    return await led_to(client, gate.url("app.localhost"), idp.issuer)


async def picked(gate: RunningGate, idp: FakeIdP, client: httpx.AsyncClient, address: str) -> httpx.Response:
    return await follow(client, await client.get(idp.pick(await to_provider(gate, idp, client, address), "alice")))


async def begin_time(gate: RunningGate, idp: FakeIdP, stranger: httpx.AsyncClient) -> str:
    """The state of a sign-in that only needs its callback."""
    return parse_qs(urlsplit(await to_provider(gate, idp, stranger, "198.51.100.7")).query)["state"][0]


async def junk_callback(gate: RunningGate, idp: FakeIdP, stranger: httpx.AsyncClient, state: str) -> int:
    url = gate.url(gate.builder.authenticate_host, "/oauth2/callback")
    # Each another code: one that was brought before is refused at once.
    return (await stranger.get(url, params={"code": f"junk{state}", "state": state, "iss": idp.issuer})).status_code
