"""Several processes know the same people: sign-in, sign-out, what works once, and a first process that is silent."""

import asyncio
import os
import re
import signal
from pathlib import Path

import httpx

from tests.support.development_provider import DevelopmentProvider, pick_user
from tests.support.gate import GateBuilder, RunningGate, follow, sign_in, sign_out
from tests.support.upstream import SampleUpstream
from tests.support.workers import HTML, WORKERS, client_for, on_each, processes


async def test_session_is_shared_and_ends_everywhere(gate: RunningGate) -> None:
    async with gate.client() as client:
        assert (await sign_in(client, gate.url("app.localhost"), "alice")).status_code == 200
        stored = httpx.Cookies(client.cookies)
        assert await on_each(gate, stored) == [200, 200]
        await sign_out(client, gate)
        assert await on_each(gate, stored) == [302, 302]


async def test_single_use_value_is_single_use_for_all_processes(gate: RunningGate) -> None:
    """The same handoff at two workers, at the same moment."""
    async with gate.client() as client:
        response = await client.get(gate.url("app.localhost"), headers=HTML)
        response = await pick_user(client, await follow(client, response), "bob")
        while "gate_session=" not in response.headers["location"]:
            response = await client.send(response.next_request)
        handoff = response.headers["location"]
        async with client_for(gate, 1, client.cookies) as one, client_for(gate, 2, client.cookies) as other:
            answers = await asyncio.gather(*(each.get(handoff, headers=HTML) for each in (one, other)))
    assert sorted(answer.status_code for answer in answers)[0] == 302
    assert sum("_gate" in answer.headers.get("set-cookie", "") and answer.status_code == 302 for answer in answers) == 1


async def test_stalled_first_process_bounds_staleness(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    builder = GateBuilder(provider.url).route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    with builder.setting(workers=WORKERS, session_staleness="0s", grpc_client_timeout="1s").start(tmp_path) as gate:
        gate.wait_for_event("gate is ready")
        async with gate.client() as client:
            await sign_in(client, gate.url("app.localhost"), "bob")
            async with client_for(gate, 2, client.cookies) as of_second:
                first = processes(gate)[0]
                os.kill(first, signal.SIGSTOP)
                try:
                    async with asyncio.timeout(20):
                        while (status := (await of_second.get(gate.url("app.localhost"), headers=HTML, timeout=30)).status_code) == 200:
                            await asyncio.sleep(0.2)
                    assert status == 503
                finally:
                    os.kill(first, signal.SIGCONT)


async def test_resumed_worker_drops_its_cache(gate: RunningGate) -> None:
    """Requests sent during the suspension wait in its socket, as does the event that the session has ended."""
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        stored = httpx.Cookies(client.cookies)
        async with client_for(gate, 1, stored) as of_first, client_for(gate, 2, stored) as of_second:
            assert (await of_second.get(gate.url("app.localhost"), headers=HTML)).status_code == 200
            page = await of_first.get(gate.url("authenticate.localhost", "/.gate/"), headers=HTML)
            (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
            second = processes(gate)[1]
            os.kill(second, signal.SIGSTOP)
            try:
                async with gate.client(cookies=of_first.cookies) as other:
                    await other.post(gate.url("authenticate.localhost", "/.gate/signout/"), data={"_gate_csrf": token})
                    assert (await other.get(gate.url("app.localhost"), headers=HTML)).status_code == 302
                requested = asyncio.create_task(of_second.get(gate.url("app.localhost"), headers=HTML, timeout=30))
                await asyncio.sleep(1)
            finally:
                os.kill(second, signal.SIGCONT)
            assert (await requested).status_code == 302
