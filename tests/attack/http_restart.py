"""B16: a session that was ended stays ended, by restart and by kill, and its websockets end with it."""

import asyncio
import atexit
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache, partial

from tests.attack.http_sign_out import HTML, SITES, TIMES, _reaches
from tests.attack.http_stage import stage
from tests.attack.http_websocket_clients import _signed_out
from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import SIGNED_IN_SITES, Target, new_marker
from tests.support.gate import AUTHENTICATE_HOST, follow, sign_in

WAYS = (signal.SIGTERM, signal.SIGKILL)


@cache
def _victim() -> Target:
    """Started when it is first asked for, and kept to the end; each case ends it and starts it again."""
    stack = ExitStack()
    atexit.register(stack.close)
    victim = stack.enter_context(Target.start())
    stack.callback(lambda: victim.gate.stop(signal.SIGKILL))
    return victim


@attack("B16", "websockets after sign-out", together=4, sample=3)
def websockets(target: Target) -> Iterator[Case]:
    home = stage()
    for number in range(TIMES):
        person, way = ("alice", "bob")[number % 2], (b"hold", b"echo")[number // 2 % 2]
        yield Case(f"{person}'s {way!r} {number}", partial(_signed_out, person, way, home))


@attack("B16", "replay after sign-out and restart", together=1, sample=1, minutes=0.5)
def restarted(target: Target) -> Iterator[Case]:
    _victim()  # it is started outside the event loop
    for number in range(8):
        way = WAYS[number % len(WAYS)]
        yield Case(f"{way.name} {number}", partial(_replayed_after, way))


async def _replayed_after(way: signal.Signals, _: Target) -> Outcome:
    victim = _victim()
    ended, kept = await _cookies(victim, "bob", signs_out=True), await _cookies(victim, "carol", signs_out=False)
    await asyncio.to_thread(_restart, victim, way)
    for site in SITES:
        expect(not await _reaches(victim, site, ended[site]), f"an ended session lives again at {site} after {way.name}")
        await _is_nobody_else(victim, site, kept[site], b"carol@example.com")
    return REFUSED


def _restart(victim: Target, way: signal.Signals) -> None:
    gate = victim.gate
    gate.stop(way)
    victim.gate = type(gate)(gate.builder, gate.config_file, gate.certificates)
    victim.pid = victim.gate.child.process.pid


async def _is_nobody_else(victim: Target, site: str, cookie: bytes, email: bytes) -> None:
    """In memory a session ends with the process; elsewhere it lives on, and is nobody else's."""
    marker = new_marker()
    await victim.send(victim.request(b"GET", b"/r", site, marker=marker, headers=b"Cookie: _gate=%b\r\n" % cookie))
    for hit in victim.ledger.hits(marker):
        expect(site == "bare" or hit.values(b"x-gate-claim-email") == [email], f"came as {hit.head!r}", hit.head)


async def _cookies(victim: Target, person: str, *, signs_out: bool) -> dict[str, bytes]:
    async with victim.browser() as client:
        for number, site in enumerate(SITES):
            url = f"https://{victim.host(site)}{SIGNED_IN_SITES[site]}"
            await (follow(client, await client.get(url, headers=HTML)) if number else sign_in(client, url, person))
        found = {each.domain.split(".")[0]: (each.value or "").encode() for each in client.cookies.jar if each.name == "_gate"}
        for site in SITES:
            expect(await _reaches(victim, site, found[site]), f"the session at {site} was none to begin with")
        if signs_out:
            page = await client.get(victim.gate.url(AUTHENTICATE_HOST, "/.gate/"), headers=HTML)
            (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
            answer = await client.post(victim.gate.url(AUTHENTICATE_HOST, "/.gate/signout/"), data={"_gate_csrf": token})
            expect(answer.status_code in (200, 302, 303), f"sign-out answered {answer.status_code}")
    return found
