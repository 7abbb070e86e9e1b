"""B34: does anything that was proven once, on another connection or before a reload, still count?"""

import asyncio
from collections.abc import Iterator
from itertools import product

from OpenSSL import SSL

from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target
from tests.attack.tls_client import VERSIONS, Client, context
from tests.attack.tls_stage import (
    ANN,
    ANNS,
    BOB,
    BOBS,
    CHANGING,
    GATES,
    NO_CERTIFICATE,
    VALID,
    WANTS_NOTHING,
    Stage,
    full,
    new_stage,
    stage,
)
from tests.support.client_certificates import Issued, authority
from tests.support.reloading import reload

NOBODYS = authority("nobody's")


async def _stored(there: Stage, using: SSL.Context, name: str, own: Issued | None) -> SSL.Session | None:
    """TLS session that a client stores after a request and its response."""
    client = Client(there.port, using, full(name), own=own)
    try:
        expect(not await client.connect(), "no connection to begin with")
        await there.on(client, name)
        return client.tls.get_session()
    finally:
        await client.close()


@attack("B34", "resumed under another name", together=16, sample=60)
def resumption(target: Target) -> Iterator[Case]:
    """A client that stores a session of another host or certificate (gate issues none that can be resumed) offers it again."""
    for gate, version, first, then, before, now in product(GATES, VERSIONS, (*VALID, "open"), VALID, (*VALID, ""), (*VALID, "")):
        label = f"{gate}, TLS {version}: {first} with {before or 'no'} certificate, then {then} with {now or 'none'}"
        yield _resumed(label, gate, version, first, then, before, now)


def _resumed(label: str, gate: str, version: str, first: str, then: str, before: str, now: str) -> Case:
    async def attempt(target: Target) -> Outcome:
        there = stage(gate)
        using = context(version)
        session = await _stored(there, using, first, VALID.get(before))
        received, was_seen = await there.ask(then, server_name=full(then), using=using, session=session, own=VALID.get(now))
        # A certificate of the previous connection proves nothing on this one.
        is_right = bool(now) and VALID[now] is VALID[then]
        return there.evaluate(received, was_seen, is_proven=is_right, must_forward=is_right)

    return Case(label, attempt)


@attack("B34", "resumed from before a certificate was wanted", together=1, sample=1)
def tickets(target: Target) -> Iterator[Case]:
    for number in range(3):
        yield Case(f"gate {number}", _tickets)


async def _tickets(target: Target) -> Outcome:
    """As long as no route requires a certificate gate issues tickets; they open nothing once one does."""
    with new_stage(WANTS_NOTHING) as there:
        stored = []
        for version in VERSIONS:
            using = context(version)
            session = await _stored(there, using, "ann", None)
            with_it, without = (len(Client(0, using, full("ann"), session=each).hello()) for each in (session, None))
            expect(with_it > without, "the client has nothing to offer, so nothing would be tried")
            stored.append((using, session))
        there.replace_authorities(ANNS.pem)
        await asyncio.to_thread(reload, there.gate, client_ca_file=str(there.directory / CHANGING))
        for using, session in stored:
            for own in (None, BOB, ANN):
                received, was_seen = await there.ask("ann", server_name=full("ann"), using=using, session=session, own=own)
                there.evaluate(received, was_seen, is_proven=own is ANN, must_forward=own is ANN)
    return REFUSED


@attack("B34", "after the authority was replaced", together=1, sample=2, minutes=1)
def replaced(target: Target) -> Iterator[Case]:
    for gate, version, way in product(GATES, VERSIONS, ("resumed", "kept open", "half shaken")):
        yield _replaced(f"{gate}, TLS {version}, {way}", gate, version, way)


def _replaced(label: str, gate: str, version: str, way: str) -> Case:
    async def attempt(target: Target) -> Outcome:
        there = stage(gate)
        there.trust(ANNS)
        await there.wait_until(ANN, is_let_in=True)
        shows, open_one = context(version), Client(there.port, context(version, [ANN]), full("changing"))
        session = await _stored(there, shows, "changing", ANN)
        started = asyncio.Event()
        shaking = Client(there.port, context(version, [ANN]), full("changing"), waits_for=started)
        unfinished = asyncio.ensure_future(shaking.connect())
        try:
            expect(not await open_one.connect(), "no connection to begin with")
            expect((await there.on(open_one, "changing"))[1], "who shows the right certificate is not let in")
            there.trust(BOBS, NOBODYS)
            await there.wait_until(BOB, is_let_in=True)
            started.set()
            if way == "resumed":
                received, was_seen = await there.ask("changing", server_name=full("changing"), using=shows, session=session, own=ANN)
            else:
                expect(not await unfinished, "the handshake has failed")
                received, was_seen = await there.on(open_one if way == "kept open" else shaking, "changing")
        finally:
            started.set()
            await unfinished
            await shaking.close()
            await open_one.close()
        expect(received.status == NO_CERTIFICATE, f"not refused for its certificate: {received.status} {received.problem}", received.raw)
        return there.evaluate(received, was_seen, is_proven=False)

    return Case(label, attempt)


@attack("B34", "with no authority that can be read", together=1, sample=1)
def unreadable(target: Target) -> Iterator[Case]:
    """The last good file stays in force: neither every certificate nor an unknown one is accepted."""
    for gate, (label, content) in product(GATES, {"gone": None, "empty": b"", "junk": b"-----BEGIN CERTIFICATE-----\n"}.items()):
        yield _unreadable(f"{gate}, {label}", gate, content)


def _unreadable(label: str, gate: str, content: bytes | None) -> Case:
    async def attempt(target: Target) -> Outcome:
        there = stage(gate)
        there.trust(ANNS)
        await there.wait_until(ANN, is_let_in=True)
        refusals = there.refused_configurations()
        if content is None:
            (there.directory / CHANGING).unlink()
        else:
            there.replace_authorities(content)
        while there.refused_configurations() == refusals:
            await asyncio.sleep(0.05)
        for presented in ((), (BOB,), (NOBODYS.issue("ann"),)):
            received, was_seen = await there.ask("changing", presented, server_name=full("changing"))
            there.evaluate(received, was_seen, is_proven=False)
        received, was_seen = await there.ask("changing", [ANN], server_name=full("changing"))
        outcome = there.evaluate(received, was_seen, is_proven=True, must_forward=True)
        there.trust(ANNS)
        return outcome

    return Case(label, attempt)
