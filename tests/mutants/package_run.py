"""The generated mutants of one package of the product: which tests reach each of them, and whether one of those notices.

A process imports the instrumented modules and collects the tests; each mutant is a fork of it that runs the tests that reach the mutant.
Code that runs on import is imported again, in a fork of a process without these modules.
"""

import builtins
import importlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import points
from tests.mutants.forked import Ended, in_fork
from tests.mutants.generator import POINTS, Generated, instrument
from tests.mutants.guards import ROOT

TESTS_SECONDS, TEST_SECONDS = 1200, 60
MIN_SECONDS, MAX_SLOWDOWN = 5, 20
MAX_OTHER_TESTS = 100  # of the tests that reach a mutant, in addition to those of its module's test file
MEMORY = 2 << 30  # beyond what a process has: a mutant may collect without an end
# Order is by file, so that a run repeats itself; the other plugins only cost time.
OPTIONS = ["-x", "-q", "--tb=line", "-s", "-o", "addopts=--import-mode=importlib", "-o", f"timeout={TEST_SECONDS}"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was imported beforehand
OPTIONS += [
    each for name in ("cacheprovider", "randomly", "hypothesispytest", "anyio", "unittest", "schemathesis") for each in ("-p", f"no:{name}")
]

Verdict = tuple[int, str]  # the number of a mutant, and what noticed it: "" for nothing


@dataclass
class Reached:
    """By the mutants' numbers, the tests that reach each, by their indexes; and the seconds that each test takes."""

    tests: dict[int, set[int]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)


class Runner:
    """As a plugin of pytest: instead of its tests, runs those of each mutant."""

    def __init__(self, mutants: Sequence[Generated]):
        self.mutants = mutants
        self.verdicts = list[Verdict]()
        self.at_import = list[int]()
        self.failed = ""
        self._failure = ""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        imported, reached = set(points.reached), Reached()
        for _, items in groupby(enumerate(session.items), lambda pair: pair[1].path):
            try:
                found, self.failed = in_fork(self._find_reached, list(items), seconds=TESTS_SECONDS)
            except Ended as error:
                self.failed = str(error)
            if self.failed:
                return True
            reached.seconds |= found.seconds
            for number, tests in found.tests.items():
                reached.tests.setdefault(number, set()).update(tests)
        for mutant in self.mutants:
            number, tests = mutant.number, _order(session.items, reached, mutant)
            noticing = self._noticed_by(session, number, tests, sum(map(reached.seconds.__getitem__, tests))) if tests else ""
            if not noticing and number in imported:
                self.at_import.append(number)
            else:
                self.verdicts.append((number, noticing))
        return True

    def _find_reached(self, items: Sequence[tuple[int, pytest.Item]]) -> tuple[Reached, str]:
        """Result of the tests of one file in a new process, so that caches of an earlier file do not matter."""
        found = Reached()
        _renew_loop()
        for (index, item), following in _pairs(items):
            points.reached.clear()
            started = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following and following[1])
            found.seconds[index] = time.monotonic() - started
            for number in points.reached:
                found.tests.setdefault(number, set()).add(index)
        return found, self._failure

    def _noticed_by(self, session: pytest.Session, number: int, tests: Sequence[int], seconds: float) -> str:
        try:
            return str(in_fork(self._test, session, number, tests, seconds=MIN_SECONDS + MAX_SLOWDOWN * seconds))
        except Ended as error:
            return str(error)

    def _test(self, session: pytest.Session, number: int, tests: Sequence[int]) -> str:
        _limit_memory()
        _renew_loop()
        points.active = number
        for item, following in _pairs([session.items[index] for index in tests]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failure:
                return self._failure
        return ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failure:
            self._failure = report.nodeid.rpartition("/")[2]


class _Noticing:
    """As a plugin of pytest, that of a run for one mutant."""

    noticed_by = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.noticed_by:
            self.noticed_by = report.nodeid.rpartition("/")[2]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.noticed_by:
            self.noticed_by = f"{report.nodeid}: can't be imported"


def _pairs(items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(items, [*items[1:], None], strict=True)


def _order(items: Sequence[pytest.Item], reached: Reached, mutant: Generated) -> list[int]:
    """Tests that may notice: those that reach the mutant, and others of their files, for which a fixture or a cache may have been made.

    All of the module's own file, and some others.
    """
    own, itself = own_test(mutant.module), reached.tests.get(mutant.number, set())
    files = {items[index].path for index in itself}
    far = {path: (path != own) + (path.parent != own.parent) for path in files}
    indexes = [index for index, item in enumerate(items) if item.path in files]
    ordered = sorted(indexes, key=lambda index: (far[items[index].path], index not in itself, reached.seconds[index]))
    return ordered[: sum(items[index].path == own for index in indexes) + MAX_OTHER_TESTS]


def own_test(module: str) -> Path:
    *folders, name = module.split(".")
    return (ROOT / "tests/unit").joinpath(*folders, f"test_{name}.py")


def _tests_at_import(module: str, tests: Sequence[str]) -> list[str]:
    """The module's own and those beside it, where there are some: each mutant imports and runs them all."""
    own = own_test(module)
    return [str(path) for path in sorted(own.parent.glob("test_*.py"), key=lambda path: (path != own, path))] or list(tests)


def _renew_loop() -> None:
    if "twisted.internet.reactor" in sys.modules:  # two processes can't share what Daphne makes when it is imported
        importlib.import_module("proxy.listener.event_loop").replace_event_loop()


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def instrumented(modules: Sequence[str]) -> tuple[dict[str, Any], list[Generated]]:
    """The instrumented code of modules by their names, and all mutants in them."""
    codes, mutants = {}, list[Generated]()
    for module in modules:
        path = ROOT / (module.replace(".", "/") + ".py")
        tree, found = instrument(module, path.read_text(), len(mutants) + 1)
        codes[module] = compile(tree, str(path), "exec")
        mutants += found
    return codes, mutants


def run(modules: Sequence[str], mutants: Sequence[Generated], tests: Sequence[str]) -> list[Verdict]:
    """Called in a process that has imported none of the modules; `mutants` are some of instrumented(modules).  Ended where that is void."""
    codes, _ = instrumented(modules)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        output = Path(directory) / "output"
        try:
            found, at_import, failed = in_fork(_run, codes, mutants, tests, output, seconds=36000)
        except Ended as error:
            failed = str(error)
        if failed:
            raise Ended(f"the tests must pass before a defence is left out: {failed}\n{output.read_text()[-3000:]}")
    again = [mutant for mutant in mutants if mutant.number in at_import]
    found += [(mutant.number, noticed_by(codes, _tests_at_import(mutant.module, tests), mutant.number)) for mutant in again]
    return sorted(found)


def noticed_by(codes: dict[str, Any], tests: Sequence[str], number: int = 0) -> str:
    """Tests that notice, of those that import mutated modules.  Runs in a process that has imported none of the modules."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        try:
            return str(in_fork(_run_imported, codes, number, tests, Path(directory) / "output", seconds=TESTS_SECONDS))
        except Ended as error:
            return str(error)


def _run(codes: dict[str, Any], mutants: Sequence[Generated], tests: Sequence[str], output: Path) -> tuple[list[Verdict], list[int], str]:
    _prepare(codes, output)
    runner = Runner(mutants)
    status = pytest.main(_arguments(tests, output), plugins=[runner])
    ran = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return runner.verdicts, runner.at_import, runner.failed or ("" if ran else f"pytest ended with {status}")


def _run_imported(codes: dict[str, Any], number: int, tests: Sequence[str], output: Path) -> str:
    _prepare(codes, output)
    _limit_memory()
    points.active = number
    noticing = _Noticing()
    status = pytest.main(_arguments(tests, output), plugins=[noticing])
    return noticing.noticed_by or ("" if status == 0 else f"pytest ended with {status}")


def _arguments(tests: Sequence[str], output: Path) -> list[str]:
    return [*OPTIONS, f"--basetemp={output.parent / 'base'}", *tests]


def _prepare(codes: dict[str, Any], output: Path) -> None:
    if known := codes.keys() & sys.modules.keys():
        raise Ended(f"imported already: {known}")
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # tests log text that is no Unicode
    output.parent.chmod(0o755)  # servers that tests start may run as another user
    os.environ["TMPDIR"] = tempfile.tempdir = str(output.parent)
    setattr(builtins, POINTS, points)
    load = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        return codes.get(fullname) or load(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
