"""B42: does each answer belong to its question, whatever came before it on the connection, and whichever client left in the middle?"""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from tests.attack.http_responses import split_responses
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import READ_LIMIT, Target, new_marker

CONNECTIONS = 4000  # with up to 24 requests each
MIXES = 2500  # connections, with four requests on average: ten thousand in all
PATIENCE = 60.0  # seconds; no speed is measured here


@dataclass(frozen=True)
class Question:
    """One request, and what must come back: the marker (from the canary), a status (from gate), or an end of the connection."""

    data: bytes
    method: bytes
    marker: bytes
    status: int
    is_forwarded: bool = False
    ends: bool = False


def _valid(target: Target, dice: random.Random) -> Question:
    site, user = dice.choice((("public", None), ("any", "alice"), ("any", "carol"), ("group", "alice"), ("bare", "carol"), ("mixed", None)))
    marker, method = new_marker(), dice.choice((b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE"))
    body = b"" if method in (b"GET", b"HEAD") else dice.randbytes(dice.choice((0, 1, 100, 70_000)))
    return Question(_request(target, dice, method, marker, site, user, body), method, marker, 200, is_forwarded=True)


def _refused(target: Target, dice: random.Random) -> Question:
    site, user, status = dice.choice(
        (("group", None, 302), ("group", "carol", 403), ("any", None, 302), ("nowhere", None, 404), ("redirect", None, 301))
    )
    marker, method = new_marker(), dice.choice((b"GET", b"POST", b"HEAD", b"PUT"))
    body = b"" if method in (b"GET", b"HEAD") else dice.randbytes(dice.choice((0, 5, 1000, 30_000)))
    if status == 302 and method in (b"POST", b"PUT"):
        status = 401
    return Question(_request(target, dice, method, marker, site, user, body), method, marker, status)


def _broken(target: Target, dice: random.Random) -> Question:
    marker = new_marker()
    host = b"Host: %b\r\n" % target.host("public").encode()
    data, status = dice.choice(
        (
            (b"GET /%b HTTP/1.1\r\n\r\n" % marker, 400),
            (b"GET /%b HTTP/1.0\r\n%b\r\n" % (marker, host), 426),
            (b"GET /%b HTTP/1.1\r\n%bX : y\r\n\r\n" % (marker, host), 400),
            (b"POST /%b HTTP/1.1\r\n%bContent-Length: x\r\n\r\n" % (marker, host), 400),
            (b"POST /%b HTTP/1.1\r\n%bContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" % (marker, host), 400),
            (b"TRACE /%b HTTP/1.1\r\n%b\r\n" % (marker, host), 405),
            (b"GET /%b%b HTTP/1.1\r\n%b\r\n" % (b"a" * 9000, marker, host), 414),
            (b"GET /%b HTTP/1.1\r\n%bX: %b\r\n\r\n" % (marker, host, b"a" * 20_000), 431),
            (b"POST /%b HTTP/1.1\r\n%bTransfer-Encoding: gzip\r\n\r\n" % (marker, host), 501),
            (b"\x00\x01%b\r\n\r\n" % marker, 400),
        )
    )
    return Question(data, b"GET", marker, status, ends=True)


def _bad_path(target: Target, dice: random.Random) -> Question:
    """Refused by what is behind the listener: the connection stays."""
    marker = new_marker()
    return Question(target.request(b"GET", b"/%00" + marker, "public", close=False), b"GET", marker, 400)


def _request(target: Target, dice: random.Random, method: bytes, marker: bytes, site: str, user: str | None, body: bytes) -> bytes:
    if body and dice.random() < 0.5:
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[: len(body) // 2], body[len(body) // 2 :]) if part)
        head = target.request(method, b"/" + marker, site, user=user, headers=b"Transfer-Encoding: chunked\r\n", close=False)
        return head + chunks + b"0\r\n\r\n"
    return target.request(method, b"/" + marker, site, user=user, body=body, close=False)


@attack("B42", "keep-alive mixes of good, refused and broken", together=96, sample=75)
def mixes(target: Target) -> Iterator[Case]:
    for number in range(MIXES):
        yield Case(f"mix {number}", partial(_mix, number))


async def _mix(seed: int, target: Target) -> Outcome:
    dice = random.Random(seed)
    questions = [dice.choices((_valid, _refused, _bad_path, _broken), (5, 4, 1, 0.6))[0](target, dice) for _ in range(dice.randint(1, 7))]
    questions[-1] = _last(questions[-1])
    data, started = b"".join(question.data for question in questions), time.monotonic()
    received = await (_pipelined(target, dice, data) if dice.random() < 0.6 else _in_turn(target, questions))
    answers = split_responses(received, tuple(question.method for question in questions), is_closed=True)
    is_late = time.monotonic() - started >= READ_LIMIT
    if is_late and answers and answers[-1].status == 408:
        del answers[-1]
    until = next(number + 1 for number, question in enumerate(questions) if question.ends)
    expected = questions[:until]
    for number, question in enumerate(questions):
        hits = target.ledger.hits(question.marker)
        is_answered = number < len(answers)
        expect(bool(hits) <= question.is_forwarded and len(hits) <= 1, f"question {number} ({question.status}) reached {hits}", data)
        expect(number < until or not hits, f"question {number} came after the end", data)
        expect(
            not (is_answered and question.is_forwarded) or len(hits) == 1, f"question {number} was answered, but not by its upstream", data
        )
    expect(len(answers) <= len(expected), f"{len(answers)} answers to {len(expected)} questions", data)
    for question, answer in zip(expected, answers, strict=False):
        expect(answer.status == question.status, f"{question.data[:60]!r} got {answer.status}, not {question.status}", data)
        if question.is_forwarded and question.method != b"HEAD":
            expect(answer.body == b"/" + question.marker, f"{question.marker!r} got the answer {answer.body[:60]!r}", data)
        expect(question.is_forwarded or not answer.values(b"x-canary"), "gate's own answer came from an upstream", data)
    closes = next((number + 1 for number, answer in enumerate(answers) if answer.announces_close), 0)
    # A client slower than gate's deadlines, as this process is on a busy machine, may get 408 or no response.
    expect(is_late or len(answers) == (closes or len(expected)), f"{len(answers)} answers to {len(expected)} questions", data)
    return REFUSED if any(not question.is_forwarded for question in expected) else ACCEPTED


def _last(question: Question) -> Question:
    """It asks for the end, so that no clock decides when all answers are there."""
    return replace(question, data=question.data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1), ends=True)


async def _pipelined(target: Target, dice: random.Random, data: bytes) -> bytes:
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.randint(0, 4)))
    parts = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    answer = await target.send(*parts, wait=PATIENCE)
    expect(answer.is_closed, f"still open after {PATIENCE:.0f} s: {answer.raw[-300:]!r}", data)
    return answer.raw


async def _in_turn(target: Target, questions: list[Question]) -> bytes:
    """Keep-alive: each question after the answer to the one before."""
    reader, writer = await target.open()
    received = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            for question in questions:
                writer.write(question.data)
                answer = await _one(reader, question.method)
                received += answer
                if not answer or b"\r\nconnection: close" in answer.lower().partition(b"\r\n\r\n")[0]:
                    break
            with suppress(ConnectionError):
                received += await reader.read()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return bytes(received)


async def _one(reader: asyncio.StreamReader, method: bytes) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        if method == b"HEAD" or b"content-length" not in fields:
            return head
        return head + await reader.readexactly(int(fields[b"content-length"]))
    except (EOFError, ConnectionError):
        return b""


@attack("B42", "tagged requests, clients that leave", together=48, sample=75)
def tagged(target: Target) -> Iterator[Case]:
    for number in range(CONNECTIONS):
        yield Case(f"connection {number}", partial(_tagged, number))


async def _tagged(seed: int, target: Target) -> Outcome:
    dice = random.Random(-seed - 1)
    questions = [_valid(target, dice) for _ in range(dice.randint(1, 24))]
    questions[-1] = _last(questions[-1])
    data = b"".join(question.data for question in questions)
    if dice.random() < 0.3:
        return _belongs_so_far(await _until_it_leaves(target, dice, data), questions, data)
    started, answer = time.monotonic(), await target.send(data, wait=PATIENCE)
    expect(answer.is_closed, f"still open after {PATIENCE:.0f} s: {answer.raw[-300:]!r}", data)
    answers = split_responses(answer.raw, tuple(question.method for question in questions), is_closed=True)
    # Where we were too slow for gate, it says so, or nothing.
    is_late = time.monotonic() - started >= READ_LIMIT and (not answers or answers[-1].status == 408)
    expect(is_late or len(answers) == len(questions), f"{len(answers)} answers to {len(questions)} questions", data)
    for question, one in zip(questions, answers[:-1] if is_late else answers, strict=False):
        expect(one.status == 200, f"{question.marker!r} got {one.status}", data)
        expect(one.body == (b"" if question.method == b"HEAD" else b"/" + question.marker), f"{question.marker!r} got {one.body!r}", data)
    return ACCEPTED


async def _until_it_leaves(target: Target, dice: random.Random, data: bytes) -> bytes:
    reader, writer = await target.open()
    writer.write(data[: dice.randrange(len(data))])
    received = bytearray()
    with suppress(TimeoutError, ConnectionError):
        while dice.random() < 0.7:
            received += await asyncio.wait_for(reader.read(1 << 20), 0.05)
    writer.transport.abort()
    return bytes(received)


def _belongs_so_far(received: bytes, questions: list[Question], data: bytes) -> Outcome:
    """Answers that came before the client left are in order, too."""
    bodies = [part for part in received.split(b"\r\n\r\n")[1:] if part.startswith(b"/EVIL-")]
    wanted = [b"/" + question.marker for question in questions if question.method != b"HEAD"]
    for body, mine in zip(bodies, wanted, strict=False):
        expect(body.startswith(mine) or mine.startswith(body), f"{mine!r} got {body[:40]!r}", data)
    return ACCEPTED
