"""What does a request cost when each is of another session, in random order?  gate's data plane that remembers, beside the embedded one
and an Envoy that judges nobody.

The sessions are copies of one that a person really has, in Redis, which both planes share.
"""

import asyncio
import os
import secrets
import subprocess
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.records.stores import opened
from bench.support.contender import SCRIPT, Contender, Turns, give_alike_cookies
from bench.support.load import CONNECTIONS
from bench.support.processes import processor_seconds
from bench.support.proxies import BARE_ENVOY, EMBEDDED, PEERS, REMEMBERS, Stage, gate
from bench.support.rig import HOST, cores_of, pin
from databroker.records import SESSION
from foundation.crypto.session_cookie import SessionCookies
from tests.support.cookies import signed_in
from tests.support.options import make_options
from tests.support.redis_server import RedisServer

AT_ONCE = 64
FIRST_PASS = 1 / 200  # seconds at most for each session to be shown once
SETTLED, SETTLED_WITHIN = 0.1, 60.0  # of a core: less is nothing any more; seconds


def many_sessions(stack: ExitStack, stage: Stage, programs: dict[str, str], count: int, turns: Turns) -> list[Contender]:
    """Each plane twice: with one session, and with all that it was shown once before.  Names tell how many these are."""
    redis = stack.enter_context(RedisServer(stage.directory / "records"))
    os.sched_setaffinity(redis.child.process.pid, cores_of(1))
    settings: dict[str, Any] = {
        "shared_secret": b64encode(secrets.token_bytes(32)).decode(),
        "cookie_secret": b64encode(secrets.token_bytes(32)).decode(),
        "databroker_storage_type": "kvstore",
        "databroker_storage_connection_string": redis.url,
    }
    gates = [gate(EMBEDDED, **settings), gate(REMEMBERS, envoy=True, envoy_remembers=count + 1000, **settings)]
    peers = [*(peer for peer in PEERS if peer.name == BARE_ENVOY), *gates]
    planes = [peer.contender(stack, stage, programs[peer.name]) for peer in peers if peer.name in programs]
    give_alike_cookies(planes)
    file = stage.directory / "cookies"
    file.write_text("\n".join(asyncio.run(copies(stage.directory, redis.url, settings, count))))
    found = []
    for plane in planes:
        settle(plane.process)
        shown = show_each(plane, file, count)
        settle(plane.process)
        several = replace(plane, name=f"{plane.name}, {shown:,} sessions", script=(str(file), HOST, str(shown)), samples=[], downloads=[])
        found += [plane, several]
    turns.take(found)
    return found


async def copies(directory: Path, redis_url: str, settings: dict[str, Any], count: int) -> list[str]:
    """Cookies of as many sessions, alike the one that is there."""
    store = opened(redis_url, b64decode(settings["shared_secret"]))
    original, *_ = await store.page(SESSION, "", 1)
    home = directory / "cookies-of-copies"
    home.mkdir()
    cookies = SessionCookies(make_options(home, cookie_secret=settings["cookie_secret"]))
    ids = [f"{number:032x}" for number in range(count)]
    left = iter(ids)

    async def work() -> None:
        for id in left:
            await store.put(SESSION, id, {**original.data, "id": id}, expires=original.expires)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    await store.close()
    now = time.time()
    return [signed_in(cookies, id, HOST, issued=now, expires=now + 3600) for id in ids]


def show_each(plane: Contender, file: Path, count: int) -> int:
    """How many it was shown: a slow one is not shown all."""
    arguments = ["-s", str(SCRIPT), plane.url + "/", "--", str(file), HOST, "each"]
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", "--timeout", "20s", f"-d{1 + int(count * FIRST_PASS)}s", *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=lambda: pin(1)).stdout
    return min(count, int(said.split(" requests in ")[0].split()[-1]))


def settle(process: int) -> None:
    """Until it has done what many new records make it do."""
    for before, after in _seconds_of(process):
        if after - before < SETTLED:
            return


def _seconds_of(process: int) -> Iterator[tuple[float, float]]:
    """What it has taken of the processor before a second and after it, for so long as it may need to settle."""
    for _ in range(int(SETTLED_WITHIN)):
        before = processor_seconds(process)
        time.sleep(1)
        yield before, processor_seconds(process)
