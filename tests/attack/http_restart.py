"""B16: a session that was ended stays ended, by restart and by kill of gate and of its store, and its websockets end with it."""

import asyncio
import signal
from collections.abc import Iterator
from functools import partial

from tests.attack.http_sign_out import HTML, SITES, TIMES, _reaches
from tests.attack.http_stage import stage
from tests.attack.http_victims import KEEPING, STORES, restart_gate, restart_store, victim
from tests.attack.http_websocket_clients import _signed_out
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import SIGNED_IN_SITES, Target, new_marker, sign_in_all_users
from tests.support.cookies import gate_values
from tests.support.gate import follow, sign_in, sign_out

WAYS = (signal.SIGTERM, signal.SIGKILL, None)  # None: gate lives on, its store is killed and started again
RECOVERED_WITHIN = 15.0  # seconds


@attack("B16", "websockets after sign-out", together=4, sample=3)
def websockets(target: Target) -> Iterator[Case]:
    home = stage()
    for number in range(TIMES):
        user, way = ("alice", "bob")[number % 2], (b"hold", b"echo")[number // 2 % 2]
        yield Case(f"{user}'s {way!r} {number}", partial(_signed_out, user, way, home))


@attack("B16", "replay after sign-out and restart", together=1, sample=1, minutes=2)
def restarted(target: Target) -> Iterator[Case]:
    for store in STORES:
        for number in range(6):
            way = WAYS[number % len(WAYS)]
            if way is not None or store in ("kvstore", "PostgreSQL"):
                yield Case(f"{store}, {way.name if way else 'its server'} {number}", partial(_replayed_after, store, way))


async def _replayed_after(store: str, way: signal.Signals | None, _: Target) -> Outcome:
    target = await victim(store)
    ended, stored = await _cookies(target, "bob", signs_out=True), await _cookies(target, "carol", signs_out=False)
    restart = partial(restart_gate, target, way) if way else restart_store(store)
    assert restart is not None
    await asyncio.to_thread(restart)
    await _are_refused(target, ended, way)
    for site in SITES:
        if store in KEEPING:
            await _comes_back(target, site, stored[site])
        else:
            expect(not await _reaches(target, site, stored[site]), f"a session outlived the process at {site}")
    await _are_refused(target, ended, way)
    if store not in KEEPING:
        await sign_in_all_users(target)  # other attacks have this victim, too
    return ACCEPTED if store in KEEPING else REFUSED


async def _are_refused(target: Target, ended: dict[str, bytes], way: signal.Signals | None) -> None:
    for site in SITES:
        expect(not await _reaches(target, site, ended[site]), f"an ended session lives again at {site} after {way}")


async def _comes_back(target: Target, site: str, cookie: bytes) -> None:
    """It is carol's alone."""
    loop = asyncio.get_running_loop()
    end = loop.time() + RECOVERED_WITHIN
    while True:
        marker = new_marker()
        await target.send(target.request(b"GET", b"/r", site, marker=marker, headers=b"Cookie: _gate=%b\r\n" % cookie))
        for hit in target.ledger.hits(marker):
            expect(site == "bare" or hit.values(b"x-gate-claim-email") == [b"carol@example.com"], f"came as {hit.head!r}", hit.head)
            return
        expect(loop.time() < end, f"a session that was kept is forgotten at {site}")
        await asyncio.sleep(0.05)


async def _cookies(target: Target, user: str, *, signs_out: bool) -> dict[str, bytes]:
    async with target.browser() as client:
        for number, site in enumerate(SITES):
            url = f"https://{target.host(site)}{SIGNED_IN_SITES[site]}"
            await (follow(client, await client.get(url, headers=HTML)) if number else sign_in(client, url, user))
        found = {site: gate_values(client, target.host(site).partition(":")[0]) for site in SITES}
        for site in SITES:
            expect(await _reaches(target, site, found[site]), f"the session at {site} was none to begin with")
        if signs_out:
            answer = await sign_out(client, target.gate)
            expect(answer.status_code in (200, 302, 303), f"sign-out answered {answer.status_code}")
    return found
