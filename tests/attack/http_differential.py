"""B5: do gate and a real nginx or Envoy, in front of it or behind it, ever see two different sequences of requests?

Each case's bytes go six ways: to nginx and to Envoy in front of gate, to gate in front of each, to nginx and Envoy alone, and to gate
alone.  Each forwarder marks a request, so that one that was smuggled past its first reader is known by the mark it lacks.
"""

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile
from pathlib import Path

from tests.attack import http_smuggling as smuggling
from tests.attack.http_canary import Canary, CanaryServer, Hit, Ledger
from tests.attack.http_neighbours import FRONT, Server, envoy, nginx
from tests.attack.http_smuggling_families import families
from tests.attack.http_smuggling_requests import Builder
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import ALL_USERS, BEAT, Answer, Target, _PlainBuilder, new_marker
from tests.support.development_provider import DevelopmentProvider

QUIET = 0.2  # seconds
GATE = b"X-Carried-By"  # set by each route of this gate
NEIGHBOURS = ("nginx", "Envoy")
# Targets of the routes' hosts: a canary, or a neighbour that leads to one.  Names of one length make cases of one length.
SITES = {"plain": "direct", "nginx": "behind nginx", "Envoy": "behind Envoy"}


class Chain(Target):
    """`ports`: where a neighbour listens.  `alone`: what it carries without gate; there it may be as lenient as it likes."""

    ports: dict[str, int]
    alone: Ledger
    doors: dict[int, "Door"]

    def at(self, port: int) -> "Door":
        """The same, dialled through a neighbour."""
        if port not in self.doors:
            self.doors[port] = Door(self.gate, self.canaries, self.ledger, None)
            self.doors[port].port, self.doors[port].home = port, self
        return self.doors[port]

    def beat(self) -> bytes:
        return self.request(b"GET", b"/beat", "plain", marker=BEAT)

    def host(self, site: str) -> str:
        return f"{site.lower()}.localhost:{self.port}"


class Door(Target):
    home: Chain

    def beat(self) -> bytes:
        return self.home.beat()


@cache
def chain() -> Chain:
    """Started when it is first asked for, and kept to the end."""
    stack = ExitStack()
    atexit.register(stack.close)
    ledger, alone = Ledger(), Ledger()
    canaries = {name: Canary(name, ledger) for name in SITES.values()} | {
        f"{name} alone": Canary(f"{name} alone", alone) for name in NEIGHBOURS
    }
    server = CanaryServer(list(canaries.values()))
    server.start()
    stack.callback(server.stop)
    provider = stack.enter_context(DevelopmentProvider())
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-attack-")))
    gate = _PlainBuilder(provider.url)
    ports: dict[str, int] = {}
    for name, start in (("nginx", nginx), ("Envoy", envoy)):
        leads = (gate.port, canaries[f"behind {name}"].port, canaries[f"{name} alone"].port)
        found = stack.enter_context(start(directory / name, *map(Server, leads)))
        ports |= dict(zip((name, f"behind {name}", f"{name} alone"), found, strict=True))
    for site in SITES:
        to = canaries["direct"].port if site == "plain" else ports[f"behind {site}"]
        gate.route(f"{site.lower()}.localhost", to=f"http://127.0.0.1:{to}", set_request_headers={GATE.decode(): "gate"}, **ALL_USERS)
    gate.setting(timeout_read="2s", timeout_idle="6s")
    made = Chain(stack.enter_context(gate.start(directory)), canaries, ledger, None)
    made.alone = alone
    made.ports, made.doors = ports, {}
    return made


@dataclass
class Forwarded:
    answer: Answer
    hits: list[Hit]

    def agrees_with(self, other: "Forwarded") -> bool:
        """As far as both went.  Markers and hosts differ from one way to the other, lengths don't."""
        pairs = zip(self.hits, other.hits, strict=False)
        whole = takewhile(lambda pair: pair[0].is_complete and pair[1].is_complete, pairs)
        return all((mine.method, len(mine.body)) == (its.method, len(its.body)) for mine, its in whole)


@attack("B5", "nginx and Envoy before, behind and beside", together=96, sample=100, minutes=2)
def differential(target: Target) -> Iterator[Case]:
    home = chain()
    for label, make in (*families(), *smuggling.classic_builders()):
        yield Case(label, partial(_compare, make, home))


async def _compare(make: Builder, home: Chain, _: Target) -> Outcome:
    direct = await _send(make, home, "plain", home)
    fronted = [await _send(make, home, "plain", home.at(home.ports[name])) for name in NEIGHBOURS]
    backed = [await _send(make, home, name, home) for name in NEIGHBOURS]
    for (data, found), name in zip(fronted, NEIGHBOURS, strict=True):
        for hit in found.hits:
            expect(len(hit.values(FRONT)) == 1, f"gate saw a request that {name} before it did not: {hit.head!r}", data)
            expect(hit.values(GATE) == [b"gate"], f"a request came past gate: {hit.head!r}", data)
    for (data, found), name in zip((direct, *backed), SITES, strict=True):
        for hit in found.hits:
            expect(hit.values(GATE) == [b"gate"], f"{name} behind gate saw a request that gate did not: {hit.head!r}", data)
            expect(len(hit.values(FRONT)) == (name != "plain"), f"a request came past {name}: {hit.head!r}", data)
    for (data, found), name in zip(backed, NEIGHBOURS, strict=True):
        expect(found.agrees_with(direct[1]), f"behind gate {name} read {found.hits!r}, not {direct[1].hits!r}", data)
    for name in NEIGHBOURS:
        data, found = await _send(make, home, "plain", home.at(home.ports[f"{name} alone"]), home.alone)
        expect(found.agrees_with(direct[1]), f"gate read {direct[1].hits!r}, {name} {found.hits!r}", data)
    await _normal_clients(home)
    _look(home)
    return ACCEPTED if direct[1].hits else REFUSED


async def _send(make: Builder, home: Chain, site: str, door: Target, ledger: Ledger | None = None) -> tuple[bytes, Forwarded]:
    first, second = new_marker(), new_marker()
    head = b"Host: %b\r\n" % home.host(site).encode()
    data = make(head + b"X-Marker: %b\r\n" % first, b"GET /smuggled HTTP/1.1\r\n%bX-Marker: %b\r\n\r\n" % (head, second))
    answer = await door.send(data, quiet=QUIET)
    seen = ledger or home.ledger
    return data, Forwarded(
        answer,
        sorted(seen.hits(first) + [hit for hit in seen.hits(second) if first not in hit.head], key=lambda hit: first not in hit.head),
    )


async def _normal_clients(home: Chain) -> None:
    """On connections that the neighbours use again: is the next answer its own?"""
    for site, door in (*((site, home) for site in SITES), *(("plain", home.at(home.ports[name])) for name in NEIGHBOURS)):
        marker = new_marker()
        data = b"GET /good-%b HTTP/1.1\r\nHost: %b\r\nX-Marker: %b\r\nConnection: close\r\n\r\n" % (
            marker,
            home.host(site).encode(),
            marker,
        )
        answer = await door.send(data)
        statuses = answer.statuses
        expect(statuses == [200] and answer.raw.endswith(b"/good-" + marker), f"the next client got {answer.raw[:300]!r}", data)


def _look(home: Chain) -> None:
    expect(home.is_alive(), "gate has died")
    while home.ledger.violations:
        what, raw = home.ledger.violations.pop()
        expect(False, f"an upstream received {what}", raw)
    expect(not home.ledger.unmarked, f"an upstream saw {[hit.head for hit in home.ledger.unmarked[:3]]}")
    home.alone.violations.clear()
    home.alone.unmarked.clear()
