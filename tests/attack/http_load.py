"""B22, B42: what do a hundred thousand strangers leave behind, and does each of a million answers belong to its question?

B42 ends with its million, or after GATE_ATTACK_LOAD_SECONDS (default 40 minutes), and says how much it did.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tests.attack.http_responses import split_responses
from tests.attack.http_stage import Stage, stage, take_frame
from tests.attack.run import ACCEPTED, MAX_GROWTH, REFUSED, Case, Indexed, Outcome, attack, expect
from tests.attack.target import Target, new_marker
from tests.support.websockets import CLOSE, KEY, TEXT, from_client

REQUESTS = 1_000_000
BATCH = 25
SECONDS = float(os.environ.get("GATE_ATTACK_LOAD_SECONDS", "2400"))
STRANGERS, AT_ONCE, CONNECTIONS = 100_000, 1000, 10
ENDS = b"\r\n\r\n"


class UntilTime(Indexed):
    """As many cases as begin within `seconds`; a sample ignores time."""

    def __init__(self, count: int, make: Callable[[int], Case], seconds: float, summary: Callable[[], str]):
        super().__init__(count, make)
        self._seconds, self._summary = seconds, summary

    def __iter__(self) -> Iterator[Case]:
        end = time.monotonic() + self._seconds
        for number in range(len(self)):
            if time.monotonic() >= end:
                break
            yield self[number]
        print(f"      {self._summary()}", flush=True)


# One request's outcome: (the path's last part, whether the canary answers it whole, whether it may end the connection).
WAYS = ((b"", True), (b"surplus", True), (b"closing", True), (b"die", False), (b"garbage", False), (b"half", False))
SITES = (("public", None), ("any", "alice"), ("any", "carol"), ("group", "alice"), ("plain", None), ("bare", "carol"))
METHODS = (b"GET", b"GET", b"POST", b"PUT", b"HEAD", b"DELETE")


@dataclass(frozen=True)
class Question:
    data: bytes
    method: bytes
    expected: bytes  # the body of the right answer, but for HEAD
    is_answered: bool


def _question(target: Stage, dice: random.Random, way: tuple[bytes, bool]) -> Question:
    site, user = dice.choice(SITES)
    method, path = dice.choice(METHODS), b"/%b/%b" % (new_marker(), way[0])
    body = b"" if method in (b"GET", b"HEAD") else dice.randbytes(dice.choice((0, 1, 100, 20_000)))
    email = [f"{user}@example.com".encode()] if user and site != "plain" else []
    data = target.request(method, path, site, user=user, body=body, close=False)
    # A HEAD's answer with bytes behind it is none to gate: 502.
    is_answered = way[1] and (method, way[0]) != (b"HEAD", b"surplus")
    return Question(data, method, b" ".join([path, *email]), is_answered)


@attack("B42", "a million tagged requests", together=32, sample=75, minutes=10)
def million(target: Target) -> Indexed:
    """Answers, aborts of both ends, pipelining and websockets, all over the same connections to the same upstreams."""
    home, done = stage(), Counter[str]()

    def summary() -> str:
        return ", ".join(f"{number} {what}" for what, number in sorted(done.items())) + f"; gate grew by {home.growth() >> 20} MiB"

    def case(number: int) -> Case:
        return Case(f"batch {number}", partial(_batch, number, done, home))

    return UntilTime(REQUESTS // BATCH, case, SECONDS, summary)


async def _batch(seed: int, done: Counter[str], target: Stage, _: Target) -> Outcome:
    dice = random.Random(seed)
    forward = dice.choices((_pipelined, _in_turn, _leaving, _troubled, _chatting), (5, 1, 2, 2, 1))[0]
    await forward(target, dice, done)
    target.look()
    expect(target.growth() < 2 * MAX_GROWTH, f"gate grew by {target.growth() >> 20} MiB")
    target.ledger.by_marker.clear()
    return ACCEPTED


async def _pipelined(target: Stage, dice: random.Random, done: Counter[str]) -> None:
    questions = [_question(target, dice, WAYS[0]) for _ in range(BATCH)]
    raw, _ = await _forwarded(target, [question.data for question in questions], questions, len(questions))
    done["pipelined"] += _compared(questions, raw, complete=True)


async def _in_turn(target: Stage, dice: random.Random, done: Counter[str]) -> None:
    """A connection each, all at once: other clients come between."""
    questions = [_question(target, dice, dice.choice(WAYS[:3])) for _ in range(BATCH)]
    answers = await asyncio.gather(*(_forwarded(target, [question.data], [question], 1) for question in questions))
    for question, (raw, _) in zip(questions, answers, strict=True):
        done["on separate connections"] += _compared([question], raw, complete=question.is_answered)


async def _leaving(target: Stage, dice: random.Random, done: Counter[str]) -> None:
    """The client goes in the middle of its questions, or of their answers."""
    questions = [_question(target, dice, dice.choice(WAYS[:3])) for _ in range(BATCH)]
    data = b"".join(question.data for question in questions)
    reader, writer = await target.open()
    writer.write(data[: dice.randrange(len(data))])
    received = bytearray()
    with suppress(TimeoutError, ConnectionError):
        while dice.random() < 0.8:
            received += await asyncio.wait_for(reader.read(dice.choice((50, 500, 1 << 16))), 0.02)
    writer.transport.abort()
    done["left by the client"] += BATCH
    _compared(questions, bytes(received), complete=False)


async def _troubled(target: Stage, dice: random.Random, done: Counter[str]) -> None:
    """Upstreams that break off, talk on, and hang up, between good ones."""
    questions = [_question(target, dice, dice.choices(WAYS, (8, 2, 2, 1, 1, 1))[0]) for _ in range(BATCH - 1)]
    questions.append(_question(target, dice, WAYS[0]))
    left = questions
    while left:
        raw, is_closed = await _forwarded(target, [question.data for question in left], left, len(left))
        expect(raw or is_closed, "no answer", *(question.data for question in left[:1]))
        answered = _compared(left, raw, complete=False)
        expect(answered, "a connection ended without an answer", left[0].data)
        done["with upstreams that break off"] += answered
        left = left[answered:]


async def _forwarded(target: Stage, writes: list[bytes], questions: list[Question], count: int) -> tuple[bytes, bool]:
    """Everything that comes until as many answers are there, or gate hangs up."""
    reader, writer = await target.open()
    received = bytearray()
    last = ENDS if questions[-1].method == b"HEAD" else questions[-1].expected
    try:
        writer.write(b"".join(writes))
        while not (received.count(b"HTTP/1.1 ") >= count and received.endswith(last)):
            more = await asyncio.wait_for(reader.read(1 << 18), 20)
            received += more
            if not more:
                return bytes(received), True
    except ConnectionError:
        return bytes(received), True
    except TimeoutError:
        expect(False, f"no answer within 20 s, but {bytes(received[-200:])!r}", b"".join(writes))
    finally:
        writer.transport.abort()
    return bytes(received), False


def _compared(questions: list[Question], raw: bytes, *, complete: bool) -> int:
    """How many were answered, each with its own; the last may be cut short where not all are to be there."""
    data = b"".join(question.data for question in questions)
    expect(b"POISON" not in raw, "what an upstream said unasked went to a client", data)
    if complete:
        answers = split_responses(raw, tuple(question.method for question in questions), is_closed=False)
        expect(len(answers) == len(questions), f"{len(answers)} answers to {len(questions)} questions", data)
        for question, answer in zip(questions, answers, strict=True):
            body = b"" if question.method == b"HEAD" else question.expected
            expect(answer.status == 200 and answer.body == body, f"{question.expected!r} got {answer.status} {answer.body[:100]!r}", data)
        return len(questions)
    answered = 0
    for question, part in zip(questions, raw.split(b"HTTP/1.1 ")[1:], strict=False):
        status, (head, _, body) = part[:3], part.partition(ENDS)
        is_whole = b"x-canary" in head.lower()
        if is_whole and question.method != b"HEAD":
            expect(status == b"200" and question.expected.startswith(body), f"{question.expected!r} got {part[:300]!r}", data)
        elif not is_whole and ENDS in part:
            expect(not question.is_answered and status == b"502", f"{question.expected!r} got {part[:300]!r}", data)
        answered += 1
    return answered


async def _chatting(target: Stage, dice: random.Random, done: Counter[str]) -> None:
    """A websocket whose texts come back, left with or without a Close."""
    (site, user), marker = dice.choice((("public", None), ("any", "alice"), ("any", "carol"), ("group", "alice"))), new_marker()
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n" % KEY
    head = target.request(b"GET", b"/%b/echo" % marker, site, user=user, headers=upgrade, close=False)
    texts = [b"%b %d " % (marker, number) + b"x" * dice.choice((0, 10, 2000)) for number in range(BATCH)]
    reader, writer = await target.open()
    writer.write(head)
    answer = await asyncio.wait_for(reader.readuntil(ENDS), 20)
    expect(answer.startswith(b"HTTP/1.1 101 "), f"answered {answer!r}", head)
    writer.write(b"".join(from_client(TEXT, text) for text in texts))
    received, came = bytearray(), 0
    while came < (BATCH if dice.random() < 0.9 else 1):
        frame = take_frame(received)
        if frame is None:
            more = await asyncio.wait_for(reader.read(1 << 18), 20)
            expect(more, f"ended after {came} texts", head)
            received += more
            continue
        expect(frame.payload == texts[came], f"{texts[came]!r} got {frame.payload[:100]!r}", head)
        came += 1
    if dice.random() < 0.5:
        writer.write(from_client(CLOSE, b"\x03\xe8"))
        await asyncio.wait_for(reader.read(1 << 18), 20)
    writer.transport.abort()
    done["texts of websockets"] += came
    target.received(marker)


@attack("B22", "strangers leave no records", together=1, sample=3, minutes=0.6)
def strangers(target: Target) -> Iterator[Case]:
    home = stage()
    at_rest = home.memory()
    for number in range(STRANGERS // AT_ONCE):
        yield Case(f"strangers {number}", partial(_strangers, number, at_rest, home))


async def _strangers(seed: int, at_rest: int, target: Stage, _: Target) -> Outcome:
    before = await target.sessions()
    await asyncio.gather(*(_stranger(random.Random(seed * CONNECTIONS + number), target) for number in range(CONNECTIONS)))
    after = await target.sessions()
    expect(after == before, f"{AT_ONCE} strangers made {after - before} sessions")
    expect(target.memory() - at_rest < MAX_GROWTH, f"gate grew by {(target.memory() - at_rest) >> 20} MiB")
    return REFUSED


async def _stranger(dice: random.Random, target: Stage) -> None:
    """Protected pages, each with other words; none of them is anybody's."""
    questions, markers = [], []
    for _ in range(AT_ONCE // CONNECTIONS):
        lines = dice.choice(
            (
                b"Accept: text/html\r\n",
                b"Cookie: _gate=%b; _gate_signin_%d=x\r\n" % (dice.randbytes(30).hex().encode(), dice.getrandbits(30)),
                b"Sec-Fetch-Mode: cors\r\n",
                b"X-Forwarded-For: 192.0.2.%d\r\n" % dice.randrange(256),
                b"Authorization: Bearer Gate-%d\r\n" % dice.getrandbits(60),
            )
        )
        site = dice.choice(("any", "group", "bare"))
        markers.append(new_marker())
        questions.append(target.request(b"GET", b"/%b?%d" % (markers[-1], dice.getrandbits(60)), site, headers=lines, close=False))
    answer = await target.send(*questions[:-1], questions[-1].replace(ENDS, b"\r\nConnection: close\r\n\r\n"), wait=30)
    statuses = answer.statuses
    expect(len(statuses) == len(questions) and set(statuses) <= {302, 401}, f"answered {Counter(statuses)}", *questions[:3])
    expect(not any(map(target.ledger.hits, markers)), "an upstream received a request of a stranger")
