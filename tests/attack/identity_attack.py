"""How attacks on sign-in are written: cases that talk to gate one after the other, each on the shared stage."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial, update_wrapper
from typing import Any

from tests.attack.identity_stage import Stage, stage_of
from tests.attack.run import MAX_GROWTH, REFUSED, Attack, Case, Failed, Outcome, attack

# (label, what to do): returns ACCEPTED where gate did as it should for the good, REFUSED where it refused, raises Failed otherwise.
Attempt = tuple[str, Callable[[], Outcome]]


def identity_attack(name: str, title: str, **more: Any) -> Callable[[Callable[[Stage], Iterable[Attempt | Case]]], Attack]:
    """As run.attack, with a Stage in place of the Target.  The generator may talk to gate."""

    def register(cases: Callable[[Stage], Iterable[Attempt | Case]]) -> Attack:
        made = update_wrapper(partial(_cases, cases), cases)
        # One at a time: the provider's bends are shared.  `together` may be more where each case has its own stage.
        return attack(name, title, **{"together": 1, **more})(made)

    return register


def _cases(cases: Callable[[Stage], Iterable[Attempt | Case]], target: Any) -> Iterable[Case]:
    stage = stage_of(target)
    before = stage.memory()
    for each in cases(stage):
        yield each if isinstance(each, Case) else Case(each[0], partial(_executed, each[1]))
    if stage is not target:
        # run.py looks after its own target only.
        yield Case("afterwards", partial(_executed, partial(_look_after, stage, before)))


async def _executed(attempt: Callable[[], Outcome], target: Any) -> Outcome:
    return await asyncio.to_thread(attempt)


def _look_after(stage: Stage, before: int) -> Outcome:
    if not stage.is_alive():
        raise Failed("gate has died:\n" + stage.gate.child.output[-2000:])
    if (growth := stage.memory() - before) > MAX_GROWTH:
        raise Failed(f"gate grew by {growth >> 20} MiB")
    for what, raw in stage.ledger.violations:
        raise Failed(f"an upstream received {what}", raw)
    stage.ledger.forget()
    return REFUSED
