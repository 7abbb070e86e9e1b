"""The mutation run: which missing guards do the tests not notice?

    python -m tests.mutants [--list] [--all] [--only NAME] [--jobs N]

Without `--all` and `--only`, runs the mutants by hand and the generated ones of packages that were worked through (guards.py), of which each
must be noticed. Others are only reported.
"""

import argparse
import functools
import gc
import importlib
import itertools
import multiprocessing
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tests.mutants.by_hand  # noqa: F401 - fills the table
from tests.mutants.forked import Ended
from tests.mutants.generator import Generated
from tests.mutants.guards import MORE_TESTS, ROOT, WORKED_THROUGH, guard_modules, guard_tests
from tests.mutants.ignored import IGNORED
from tests.mutants.mutant import MUTANTS, Mutant, ScriptMutant
from tests.mutants.package_run import instrumented, noticed_by, run
from tests.mutants.tree import Tree
from tests.support.fork_server import LIBRARIES

Chosen = Callable[[str], list[Generated]]  # the mutants of a package that are to be run
Result = tuple[list[str], int, bool]  # the lines to print, how many mutants were noticed, and whether that is as it must be


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Leaves out one guard at a time.")
    parser.add_argument("--list", action="store_true", help="print the mutants and do nothing")
    parser.add_argument("--all", action="store_true", help="also the mutants of packages that were not worked through (hours)")
    parser.add_argument("--only", metavar="NAME", default="", help="only the mutants whose module, file or name contains NAME")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="processes at once (default: 2)")
    options = parser.parse_args(arguments)
    by_hand = [mutant for mutant in MUTANTS if options.only in mutant.name or options.only in mutant.file]
    chosen = functools.partial(_chosen, only=options.only, is_all=options.all or bool(options.only))
    packages = [package for package in MORE_TESTS if chosen(package)]
    if options.list:
        print(*(f"{mutant.file}: {mutant.name}" for mutant in by_hand), sep="\n")
        print(*(str(mutant) for package in packages for mutant in chosen(package)), sep="\n")
        return 0
    if not by_hand and not packages:
        print(f"no mutant is called {options.only!r}")
        return 1
    if mistakes := list(_mistakes(by_hand)):
        print("void: the table is wrong", *mistakes, sep="\n")
        return 1
    return _run(by_hand, packages, chosen, options.jobs)


def _chosen(package: str, only: str, *, is_all: bool) -> list[Generated]:
    """The mutants of a package that are to be run."""
    _, mutants = instrumented(guard_modules(package))
    mutants = [mutant for mutant in mutants if mutant.key not in IGNORED.get(mutant.module, {})]
    return [mutant for mutant in mutants if (is_all or mutant.package in WORKED_THROUGH) and (only in mutant.module or only in str(mutant))]


def _mistakes(chosen: Sequence[Mutant | ScriptMutant]) -> Iterator[str]:
    for mutant in chosen:
        try:
            mutant.applied_to((ROOT / mutant.file).read_text())
        except (OSError, ValueError) as error:
            yield f"{mutant.file}: {error}"


def _run(by_hand: Sequence[Mutant | ScriptMutant], packages: Sequence[str], chosen: Chosen, jobs: int) -> int:
    started = time.monotonic()
    noticed, passed = 0, True
    _import_libraries()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory, multiprocessing.get_context("fork").Pool(jobs) as pool:
        parts = [[mutant.name for mutant in by_hand[number::jobs]] for number in range(jobs)]
        trees = pool.imap_unordered(_run_by_hand, [(part, Path(directory) / str(number)) for number, part in enumerate(parts) if part])
        generated = pool.imap_unordered(functools.partial(_run_package, chosen), packages)
        for lines, count, as_it_must in itertools.chain(trees, generated):
            print(*lines, sep="\n", flush=True)
            noticed, passed = noticed + count, passed and as_it_must
    print(f"{noticed} mutants noticed, in {time.monotonic() - started:.0f} s")
    return 0 if passed else 1


def _import_libraries() -> None:
    """Tests need some of them, and none of them imports gate."""
    with warnings.catch_warnings(record=True):
        for name in (*LIBRARIES, "hypothesis"):
            importlib.import_module(name)
    gc.freeze()


def _run_package(choose: Chosen, package: str) -> Result:
    chosen = {mutant.number: mutant for mutant in choose(package)}
    try:
        verdicts = run(guard_modules(package), list(chosen.values()), guard_tests(package))
    except Ended as error:
        return [f"VOID       {package}: {error}"], 0, False
    unnoticed = [chosen[number] for number, test in verdicts if not test]
    unexpected = sum(mutant.package in WORKED_THROUGH for mutant in unnoticed)
    lines = [f"{'UNNOTICED ' if mutant.package in WORKED_THROUGH else 'unnoticed '} {mutant}" for mutant in unnoticed]
    lines.append(f"{package}: {len(chosen)} mutants, {len(unnoticed)} unnoticed, {unexpected} of them in packages that were worked through")
    return lines, len(chosen) - len(unnoticed), unexpected == 0


def _run_by_hand(arguments: tuple[Sequence[str], Path]) -> Result:
    names, directory = arguments
    mutants = [mutant for mutant in MUTANTS if mutant.name in names]
    tree, unnoticed = Tree(directory), list[str]()
    outcome = tree.outcome_unchanged({test for mutant in mutants for test in mutant.tests})
    if outcome.status != 0:
        return [f"VOID       the tests must pass before a guard is left out: {outcome.output[-4000:]}"], 0, False
    for mutant in mutants:
        if isinstance(mutant, Mutant) and mutant.module not in sys.modules and _is_noticed_in_fork(mutant):
            continue
        outcome = tree.outcome_with(mutant)  # its tests may start other programs, which read it from a file
        if not outcome.noticed_by:
            why = "" if outcome.status == 0 else f" (pytest ended with {outcome.status}: {outcome.output[-500:].strip()})"
            unnoticed.append(f"UNNOTICED  {mutant.name} ({mutant.file}){why}")
    summary = f"by hand: {len(mutants)} mutants, {len(unnoticed)} unnoticed"
    return [*unnoticed, summary], len(mutants) - len(unnoticed), not unnoticed


def _is_noticed_in_fork(mutant: Mutant) -> bool:
    """Quicker than in another tree, but the programs that tests start are without the mutant."""
    code = compile(mutant.applied_to((ROOT / mutant.file).read_text()), mutant.file, "exec")
    tests = [f"tests/{test}" for test in mutant.tests if test.startswith("unit/")]
    return bool(tests) and noticed_by({mutant.module: code}, tests) != ""


if __name__ == "__main__":
    sys.exit(main())
