"""The mutation run: one line a defence, and how many of them the tests notice.

    python -m tests.mutants [--list] [--only NAME]

Exits 0 where at most one switched-off defence goes unnoticed.
"""

import argparse
import queue
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutant import ROOT, Mutant, ScriptMutant
from tests.mutants.table import MUTANTS
from tests.mutants.tree import UNCHANGED_SECONDS, Outcome, Tree

AT_ONCE = 2
MAY_SURVIVE = 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Switches off one defence at a time.")
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    parser.add_argument("--only", metavar="NAME", default="", help="only the mutants whose name or file holds NAME")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name or options.only in mutant.file]
    if options.list:
        print("\n".join(f"{mutant.file}: {mutant.name}" for mutant in chosen))
        return 0
    if not chosen:
        print(f"no mutant is called {options.only!r}")
        return 1
    if mistakes := list(_mistakes(chosen)):
        print("void: the table is wrong", *mistakes, sep="\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        return _run(chosen, Path(directory))


def _mistakes(chosen: Sequence[Mutant | ScriptMutant]) -> Iterator[str]:
    for mutant in chosen:
        try:
            mutant.applied_to((ROOT / mutant.file).read_text())
        except (OSError, ValueError) as error:
            yield f"{mutant.file}: {error}"


def _run(chosen: Sequence[Mutant | ScriptMutant], directory: Path) -> int:
    began = time.monotonic()
    trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    for number in range(AT_ONCE):
        trees.put(Tree(directory / str(number)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        if not all(pool.map(lambda tests: _passes(trees, tests), _halves(chosen))):
            print("void: the tests must pass before a defence is switched off")
            return 1
        noticed = sum(pool.map(lambda mutant: _is_noticed(trees, mutant), chosen))
    print(f"{noticed} of {len(chosen)} noticed, in {time.monotonic() - began:.0f} s")
    return 0 if len(chosen) - noticed <= MAY_SURVIVE else 1


def _halves(chosen: Sequence[Mutant | ScriptMutant]) -> list[list[str]]:
    """Every named test once, in as many parts as run at once; a test of a file that is named whole is not named again."""
    named = {test for mutant in chosen for test in mutant.tests}
    tests = sorted(test for test in named if "::" not in test or test.partition("::")[0] not in named)
    return [part for part in (tests[number::AT_ONCE] for number in range(AT_ONCE)) if part]


def _passes(trees: "queue.SimpleQueue[Tree]", tests: Sequence[str]) -> bool:
    tree = trees.get()
    try:
        outcome = tree.outcome(tests, UNCHANGED_SECONDS)
    finally:
        trees.put(tree)
    if outcome.status != 0:
        print(outcome.output[-4000:])
    return outcome.status == 0


def _is_noticed(trees: "queue.SimpleQueue[Tree]", mutant: Mutant | ScriptMutant) -> bool:
    tree = trees.get()
    try:
        outcome = tree.outcome_with(mutant)
    finally:
        trees.put(tree)
    print(_line(mutant, outcome), flush=True)
    return bool(outcome.noticed_by)


def _line(mutant: Mutant | ScriptMutant, outcome: Outcome) -> str:
    if outcome.noticed_by:
        return f"noticed    {mutant.name}: {outcome.noticed_by.rpartition('::')[2]}"
    why = "" if outcome.status == 0 else f" (pytest ended with {outcome.status}: {outcome.output[-500:].strip()})"
    return f"UNNOTICED  {mutant.name} ({mutant.file}){why}"


if __name__ == "__main__":
    sys.exit(main())
