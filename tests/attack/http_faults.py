"""B37: with no disk, no file descriptors, or a broken configuration file, does gate deny rather than allow, and come back by itself?

On a separate gate, which is starved from outside: by the limits that the kernel keeps for its process.
"""

import asyncio
import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import product

from tests.attack.http_victims import victim as started
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Answer, Target, new_marker
from tests.support.children import wait_until
from tests.support.cookies import gate_values
from tests.support.gate import AUTHENTICATE_HOST, HTML, follow, sign_in

RECOVERED_WITHIN = 10.0  # seconds
HELD = 60  # connections that wait while there are no file descriptors
PROBES = tuple(product(("group", "any", "bare", "mixed"), ("alice", "carol", None, "forged")))
# New content of the configuration file.  None: it is deleted.
BROKEN_FILES = (
    *(b"", b"\0" * 4096, b"policy: []\n", b"{", b"policy:\n- from: https://group.localhost\n", b"!!python/object:os.system {}\n", None),
    *(b"cookie_secret: x\n", b"\xff\xfe", b"policy: *x\n", b"- a\n- b\n"),
)


@attack("B37", "no disk, no descriptors, no configuration", together=1, sample=3, minutes=0.2)
def starved(target: Target) -> Iterator[Case]:
    for label, starve in (("no file may grow", _no_disk), ("no descriptors", _no_descriptors)):
        yield from under("memory", label, starve)
    for content in BROKEN_FILES:
        yield Case(f"configuration {content!r:.40}", partial(probed, "memory", partial(_broken_file, content)))


Starve = Callable[[Target], AbstractContextManager[None]]


def under(store: str, label: str, starve: Starve) -> Iterator[Case]:
    """Clients that connect during the fault, to a gate with its records there."""
    for number in range(4):
        yield Case(f"{label}, strangers and friends {number}", partial(probed, store, starve))
    yield Case(f"{label}, a sign-in", partial(signing_in, store, starve))
    yield Case(f"{label}, a sign-out", partial(signing_out, store, starve))
    yield Case(f"{label}, gate's pages", partial(our_pages, store, starve))


@contextmanager
def _limited(victim: Target, what: int, maximum: int) -> Iterator[None]:
    before = resource.prlimit(victim.pid, what)
    resource.prlimit(victim.pid, what, (maximum, before[1]))
    try:
        yield
    finally:
        resource.prlimit(victim.pid, what, before)


@contextmanager
def _no_disk(victim: Target) -> Iterator[None]:
    with _limited(victim, resource.RLIMIT_FSIZE, 0):
        yield


@contextmanager
def _no_descriptors(victim: Target) -> Iterator[None]:
    used = max(int(each) for each in os.listdir(f"/proc/{victim.pid}/fd"))
    with _limited(victim, resource.RLIMIT_NOFILE, used + 3):
        yield


@contextmanager
def _broken_file(content: bytes | None, victim: Target) -> Iterator[None]:
    path = victim.gate.config_file
    valid, known = path.read_bytes(), len(victim.gate.child.lines)
    path.unlink() if content is None else path.write_bytes(content)
    try:
        if content is not None:
            wait_until(lambda: len(victim.gate.child.lines) > known, "gate has seen that its configuration is broken")
        yield
    finally:
        path.write_bytes(valid)


async def probed(store: str, starve: Starve, _: Target) -> Outcome:
    victim = await started(store)
    with starve(victim):
        await asyncio.gather(*(probe(victim, site, user) for _ in range(HELD // len(PROBES) + 1) for site, user in PROBES))
    await recovered(victim)
    return REFUSED


async def probe(victim: Target, site: str, user: str | None, *, must_answer: bool = False, is_forgotten: bool = False) -> None:
    """`is_forgotten`: an authorized user may also have to sign in again."""
    marker = new_marker()
    forged = b"Cookie: _gate=%b\r\n" % (b"A" * 200) if user == "forged" else b""
    known = None if user == "forged" else user
    data = victim.request(b"GET", b"/admin/x", site, user=known, marker=marker, headers=forged)
    answer = await _answer(victim, data)
    hits = victim.ledger.hits(marker)
    may = user == "alice" or (user == "carol" and site in ("any", "bare"))
    expect(may or not hits, f"{user} got into {site}", data)
    for hit in hits:
        emails = hit.values(b"x-gate-claim-email")
        expect(site == "bare" or emails == [f"{user}@example.com".encode()], f"{user} came as {emails}", data)
    status = answer.statuses[0] if answer.raw else 0
    wanted = {200, 0, 500, 502, 503, 504, *((302,) if is_forgotten else ())} if may else {302, 401, 403, 0, 500, 502, 503, 504}
    expect(status in ({200} if may else {302, 401, 403}) if must_answer else status in wanted, f"{user} at {site} got {status}", data)


async def _answer(victim: Target, data: bytes) -> Answer:
    """Where gate can't take the connection, or drops it, that is an answer, too."""
    try:
        return await victim.send(data, wait=3)
    except OSError:
        return Answer(b"", True)


async def recovered(victim: Target) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + RECOVERED_WITHIN
    expect(victim.is_alive(), "gate has died:\n" + victim.gate.child.output[-2000:])
    while not (await _answer(victim, victim.request(b"GET", b"/ping", "public"))).raw.startswith(b"HTTP/1.1 200 "):
        expect(loop.time() < end, f"no answer {RECOVERED_WITHIN:.0f} s after the trouble ended")
    for site, user in PROBES:
        await probe(victim, site, user, must_answer=True)


async def signing_in(store: str, starve: Starve, _: Target) -> Outcome:
    """It may fail; where it succeeds, it is the right person who is signed in."""
    victim, outcome = await started(store), REFUSED
    async with victim.browser() as client:
        with starve(victim), suppress(Exception):
            await sign_in(client, f"https://{victim.host('any')}/", "bob")
        await recovered(victim)
        if "_gate" in {each.name for each in client.cookies.jar if each.domain == "any.localhost"}:
            outcome = await is_bob(victim, gate_values(client, "any.localhost"))
    async with victim.browser() as client:
        page = await sign_in(client, f"https://{victim.host('any')}/", "bob")
        expect(page.status_code == 200, f"afterwards a sign-in ends with {page.status_code}")
    return outcome


async def is_bob(victim: Target, cookie: bytes) -> Outcome:
    marker = new_marker()
    await victim.send(victim.request(b"GET", b"/", "any", marker=marker, headers=b"Cookie: _gate=%b\r\n" % cookie))
    for hit in victim.ledger.hits(marker):
        expect(hit.values(b"x-gate-claim-email") == [b"bob@example.com"], f"bob came as {hit.head!r}", hit.head)
        return ACCEPTED
    return REFUSED


async def signing_out(store: str, starve: Starve, _: Target) -> Outcome:
    """Where it says that it is done, it is done, and stays done."""
    victim = await started(store)
    async with victim.browser() as client:
        await sign_in(client, f"https://{victim.host('any')}/", "bob")
        cookie = gate_values(client, "any.localhost")
        page = await follow(client, await client.get(victim.gate.url(AUTHENTICATE_HOST, "/.gate/"), headers=HTML))
        (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
        status = 0
        with starve(victim), suppress(Exception):
            answer = await client.post(victim.gate.url(AUTHENTICATE_HOST, "/.gate/signout/"), data={"_gate_csrf": token})
            status = answer.status_code
        await recovered(victim)
    is_in = await is_bob(victim, cookie) == ACCEPTED
    expect(not is_in or status not in (200, 302, 303), f"sign-out answered {status}, and the session lives on")
    return ACCEPTED if is_in else REFUSED


async def our_pages(store: str, starve: Starve, _: Target) -> Outcome:
    victim = await started(store)
    with starve(victim):
        for path in (
            b"/.gate/",
            b"/.gate/admin/",
            b"/.gate/admin/databroker/session/",
            b"/.gate/sign_in",
            b"/oauth2/callback?state=x&code=y",
        ):
            answer = await _answer(victim, victim.request(b"GET", path, "authenticate", headers=b"Accept: text/html\r\n"))
            expect(b"Traceback" not in answer.raw and b"alice" not in answer.raw, f"answered {answer.raw[:500]!r}")
            expect(not answer.raw or answer.statuses[0] != 200 or path == b"/.gate/sign_in", f"{path!r} answered {answer.raw[:200]!r}")
    await recovered(victim)
    return REFUSED
