"""B37: with its Redis killed, hung, full, locked, emptied or overwritten, does gate deny every user that it must, and recover?"""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.attack.http_faults import PROBES, probe, recovered, under
from tests.attack.http_victims import redis, victim
from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker, sign_in_all_users
from tests.support.gate import sign_in

MAX_STORED = 10.0  # seconds until what the store has forgotten is forgotten by gate
PASSWORD = "of-somebody-else"


@attack("B37", "a Redis in trouble", together=1, sample=1, minutes=0.6)
def troubled(target: Target) -> Iterator[Case]:
    for label, trouble in (("killed", _killed), ("hung", _hung), ("full", _full), ("read-only", _read_only), ("locked", _locked)):
        yield from under("kvstore", label, trouble)
    for label, damage in (("emptied", _empty), ("emptied and restarted", _start_empty), ("overwritten", _overwrite)):
        yield Case(label, partial(_damaged, damage))


@contextmanager
def _killed(_: Target) -> Iterator[None]:
    redis().kill()
    try:
        yield
    finally:
        redis().restart()


@contextmanager
def _hung(_: Target) -> Iterator[None]:
    redis().hang()
    try:
        yield
    finally:
        redis().go_on()


@contextmanager
def _received(*settings: tuple[str, str, str]) -> Iterator[None]:
    """Name, value, and the value to which it goes back."""
    for name, value, _ in settings:
        redis().command("config", "set", name, value)
    try:
        yield
    finally:
        for name, _, before in settings:
            redis().command("config", "set", name, before)


def _full(_: Target) -> contextlib.AbstractContextManager[None]:
    return _received(("maxmemory", "1", "0"))


def _read_only(_: Target) -> contextlib.AbstractContextManager[None]:
    return _received(("min-replicas-to-write", "1", "0"))


@contextmanager
def _locked(_: Target) -> Iterator[None]:
    """It requires a password that gate does not have, and has cut every connection."""
    redis().command("config", "set", "requirepass", PASSWORD)
    try:
        redis().command("-a", PASSWORD, "client", "kill", "type", "normal")
        redis().command("-a", PASSWORD, "client", "kill", "type", "pubsub")
        yield
    finally:
        redis().command("-a", PASSWORD, "config", "set", "requirepass", "")


def _empty() -> None:
    redis().command("flushall")


def _start_empty() -> None:
    redis().command("flushall")
    redis().kill()
    redis().restart()


def _overwrite() -> None:
    """Every value becomes another's, or nothing that anybody wrote."""
    script = """
        local before = nil
        for number, key in ipairs(redis.call('keys', '*')) do
            local kind = redis.call('type', key).ok
            if kind == 'string' then
                local mine = redis.call('get', key)
                redis.call('set', key, number % 3 == 0 and 'rubbish' or before or mine, 'keepttl')
                before = mine
            elseif kind == 'hash' then
                local last = nil
                for _, field in ipairs(redis.call('hkeys', key)) do
                    local mine = redis.call('hget', key, field)
                    redis.call('hset', key, field, last or 'rubbish')
                    last = mine
                end
            end
        end
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        redis().command("eval", script, "0")


async def _damaged(damage, _: Target) -> Outcome:
    """No user becomes another; an emptied store is believed; a user who signs in again is admitted."""
    target = await victim("kvstore")
    await asyncio.to_thread(damage)
    await asyncio.gather(*(probe(target, site, user, is_forgotten=True) for site, user in PROBES))
    if damage is not _overwrite:
        await _are_forgotten(target)
    await asyncio.to_thread(_empty)
    await _are_forgotten(target)
    async with target.browser() as client:
        page = await sign_in(client, f"https://{target.host('any')}/", "bob")
        expect(page.status_code == 200, f"afterwards a sign-in ends with {page.status_code}")
    await sign_in_all_users(target)
    await recovered(target)
    return REFUSED


async def _are_forgotten(target: Target) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + MAX_STORED
    while await _is_in(target, "alice") or await _is_in(target, "carol"):
        expect(loop.time() < end, f"a user that the store has forgotten is admitted {MAX_STORED:.0f} s later")
        await asyncio.sleep(0.05)


async def _is_in(target: Target, user: str) -> bool:
    marker = new_marker()
    await target.send(target.request(b"GET", b"/", "any", user=user, marker=marker, headers=b"Accept: text/html\r\n"))
    return bool(target.ledger.hits(marker))
