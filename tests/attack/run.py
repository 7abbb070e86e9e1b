"""Runs attacks and prints what came of them: `python -m tests.attack.run [--class B5] [--titled WORDS] [--sample N] [--plan] [--tls]`.

An attack is a generator of cases; a case knows how to carry itself out and judges what happened:

    @attack("B47", "methods")
    def methods(target: Target) -> Iterator[Case]:
        for method in (b"TRACE", b"get"):
            yield Case(f"method {method!r}", partial(_try_method, method))

    async def _try_method(method: bytes, target: Target) -> Outcome:
        marker = new_marker()
        data = target.request(method, b"/", "group", marker=marker)
        answer = await target.send(data)
        expect(not target.ledger.hits(marker), "an upstream saw it", data)
        return REFUSED if answer.statuses[0] >= 300 else ACCEPTED

The generator runs before its cases do, so it may compute but not talk.  `not_built("reason")` as a case says that the product lacks
the feature.  Exit status 1 where any case failed; the first failing inputs are printed as Python bytes.
"""

import argparse
import asyncio
import importlib
import logging
import math
import random
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.attack.target import Target

SEED = 20_260_821
MAX_PRINTED_FAILURES = 5
MAX_GROWTH = 64 << 20  # bytes of resident memory, over one class
CASE_TIMEOUT = 180.0  # seconds; the longest takes a minute on a busy machine

REFUSED, ACCEPTED, SKIPPED = "refused", "accepted", "skipped"
Outcome = str


class Failed(AssertionError):
    """The product did what it must not; `data` is what to send to see it again."""

    def __init__(self, what: str, *data: bytes):
        super().__init__(what)
        self.data = data


@dataclass(frozen=True)
class Case:
    label: str
    attempt: Callable[[Target], Awaitable[Outcome]]
    not_built: str = ""


@dataclass(frozen=True)
class Attack:
    """`together`: how many cases run at once.  1 where a case looks at what belongs to no case alone.

    `sample`: cases in `make test`, where most take a fraction of a millisecond.  `minutes`: of all cases, on two cores.
    """

    name: str
    title: str
    cases: Callable[[Target], Iterable[Case]]
    together: int = 32
    sample: int = 250
    minutes: float = 0.2


@dataclass
class Tally:
    attack: Attack
    cases: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: {REFUSED: 0, ACCEPTED: 0, SKIPPED: 0})
    failures: list[tuple[str, BaseException]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0
    growth: int = 0

    def row(self) -> str:
        found = self.outcomes
        counts = f"{self.cases:>8}{found[REFUSED]:>9}{found[ACCEPTED]:>10}{len(self.failures):>10}"
        numbers = f"{counts}{self.growth / (1 << 20):>8.1f}{self.seconds:>8.1f}"
        return f"{self.attack.name:<6}{self.attack.title:<40.40}{numbers}"


HEADING = f"{'class':<6}{'':<40}{'cases':>8}{'refused':>9}{'accepted':>10}{'failures':>10}{'MiB':>8}{'s':>8}"

ATTACKS: list[Attack] = []  # filled by @attack


def attack(name: str, title: str, **more: Any) -> Callable[[Callable[[Target], Iterable[Case]]], Attack]:
    """`more` as in Attack."""

    def register(cases: Callable[[Target], Iterable[Case]]) -> Attack:
        made = Attack(name, title, cases, **more)
        ATTACKS.append(made)
        return made

    return register


def not_built(reason: str) -> Case:
    async def skip(target: Target) -> Outcome:
        return SKIPPED

    return Case(reason, skip, not_built=reason)


class Indexed(Sequence[Case]):
    """Cases made when they are asked for: a sample of a very long list costs no more than a short one."""

    def __init__(self, count: int, make: Callable[[int], Case]):
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index):
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._make(index)


def expect(is_right: object, what: str, *data: bytes) -> None:
    if not is_right:
        raise Failed(what, *data)


def load_attacks(subject: str = "") -> list[Attack]:
    """Every module beside this one whose name begins with the subject (`http`, `identity`; empty for all) registers its own."""
    for path in sorted(Path(__file__).parent.glob(f"{subject}*_*.py")):
        if not path.stem.startswith("test_"):
            importlib.import_module(f"tests.attack.{path.stem}")
    return sorted(ATTACKS, key=lambda each: (int("".join(filter(str.isdigit, each.name)) or 999), each.name, each.title))


def run(target: Target, chosen: Attack, *, sample: int | None = None, seed: int = SEED, minutes: float = math.inf) -> Tally:
    """Run the attack: all of it, a seeded sample, or the cases that start within `minutes`; check that gate has survived."""
    made = chosen.cases(target)
    cases = made if isinstance(made, Indexed) else list(made)
    if sample is None and minutes < math.inf and not isinstance(cases, Indexed):
        sample = len(cases)  # in another order: those that are left out are no single kind
    if sample is not None and sample <= len(cases):
        cases = random.Random(f"{seed} {chosen.name} {chosen.title}").sample(cases, sample)
    tally = Tally(chosen)
    before, started = target.memory(), time.monotonic()
    asyncio.run(_run_all(target, chosen, cases, tally, started + 60 * minutes))
    tally.seconds = time.monotonic() - started
    _look_after(target, tally, before)
    return tally


async def _run_all(target: Target, chosen: Attack, cases: Sequence[Case], tally: Tally, end: float) -> None:
    waiting: Iterator[Case] = iter(cases)

    async def work() -> None:
        for case in waiting:
            if time.monotonic() >= end:
                break
            tally.cases += 1
            await _run_one(target, case, tally)

    await asyncio.gather(*(work() for _ in range(min(chosen.together, len(cases)))))
    await _ping(target, tally)


async def _run_one(target: Target, case: Case, tally: Tally) -> None:
    try:
        async with asyncio.timeout(CASE_TIMEOUT):
            outcome = await case.attempt(target)
    except TimeoutError as error:
        tally.failures.append((case.label, Failed(f"no end within {CASE_TIMEOUT:.0f} s ({error})")))
    except Exception as error:
        tally.failures.append((case.label, error))
    else:
        tally.outcomes[outcome] += 1
        tally.skipped += [case.not_built] if case.not_built else []


async def _ping(target: Target, tally: Tally) -> None:
    answer = await target.send(b"GET /ping HTTP/1.1\r\nHost: public.localhost\r\nConnection: close\r\n\r\n")
    if not answer.raw.startswith(b"HTTP/1.1 200 "):
        tally.failures.append(("afterwards", Failed(f"gate does not answer /ping any more: {answer.raw[:200]!r}")))


def _look_after(target: Target, tally: Tally, before: int) -> None:
    tally.growth = target.memory() - before if target.is_alive() else 0
    if not target.is_alive():
        tally.failures.append(("afterwards", Failed("gate has died:\n" + target.gate.child.output[-2000:])))
    if tally.growth > MAX_GROWTH:
        tally.failures.append(("afterwards", Failed(f"gate grew by {tally.growth >> 20} MiB")))
    for what, raw in target.ledger.violations:
        tally.failures.append(("an upstream received", Failed(what, raw)))
    target.ledger.forget()


def explain(tally: Tally) -> str:
    """The first failures, each with the bytes that show it again."""
    lines = []
    for label, error in tally.failures[:MAX_PRINTED_FAILURES]:
        lines.append(f"{tally.attack.name} {tally.attack.title}: {label}: {error}")
        if isinstance(error, Failed):
            lines += [f"    {data!r}" if len(data) < 6000 else f"    {data[:3000]!r} ... ({len(data)} bytes)" for data in error.data]
        else:
            lines.append("".join(traceback.format_exception(error)))
    if len(tally.failures) > MAX_PRINTED_FAILURES:
        lines.append(f"... and {len(tally.failures) - MAX_PRINTED_FAILURES} more")
    return "\n".join(lines)


def check_sample(target: Target, chosen: Attack) -> None:
    """For tests: a seeded sample of the attack, and AssertionError with the failing inputs."""
    tally = run(target, chosen, sample=chosen.sample)
    assert tally.cases > 0
    assert not tally.failures, explain(tally)


def plan(attacks: Sequence[Attack]) -> Iterator[str]:
    """Slow attacks, and the total duration."""
    for chosen in attacks:
        if chosen.minutes >= 1:
            yield f"{chosen.name:<6}{chosen.title:<50.50}{chosen.minutes:>6.0f} min"
    yield f"{len(attacks)} attacks, about {sum(chosen.minutes for chosen in attacks):.0f} min in all\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attack gate with real sockets.")
    parser.add_argument("--class", dest="classes", action="append", metavar="B5", help="only this class; may be repeated")
    parser.add_argument("--titled", default="", metavar="WORDS", help="only attacks with these words in their titles")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N cases of each attack")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help="start no case of an attack after MINUTES")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--plan", action="store_true", help="say what would run, and for how long")
    parser.add_argument("--tls", action="store_true", help="over TLS; without it over plain TCP, which is faster")
    parser.add_argument("--envoy", action="store_true", help="the gate of most attacks with `data_plane: envoy`")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    attacks = [
        each for each in load_attacks() if arguments.titled in each.title and (not arguments.classes or each.name in arguments.classes)
    ]
    if not attacks:
        sys.exit("there are these attacks:\n" + "\n".join(f"{each.name:<6}{each.title}" for each in load_attacks()))
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each write to a connection that gate has cut
    print(*plan(attacks), sep="\n")
    if arguments.plan:
        return 0
    tallies = []
    settings = {"data_plane": "envoy"} if arguments.envoy else {}
    with Target.start(tls=arguments.tls, **settings) as target:
        print(HEADING, flush=True)
        for chosen in attacks:
            tallies.append(tally := run(target, chosen, sample=arguments.sample, seed=arguments.seed, minutes=arguments.minutes))
            print(tally.row(), flush=True)
            for reason in dict.fromkeys(tally.skipped):
                print(f"      not built yet: {reason}", flush=True)
            if tally.failures:
                print(explain(tally), flush=True)
            if not target.is_alive():
                break
    return 1 if any(tally.failures for tally in tallies) else 0


if __name__ == "__main__":
    # Because the attacks import this module, running `__main__` itself would load it twice.
    sys.exit(importlib.import_module("tests.attack.run").main())
