"""Copies of the working tree in which one file at a time is not what it is here, and what the tests say of that."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import ROOT, Mutant, ScriptMutant

TEST_SECONDS = 20  # a mutant may leave a test waiting for what never comes
UNCHANGED_TEST_SECONDS = 120
RUN_SECONDS = 180  # of the few tests of one mutant
UNCHANGED_SECONDS = 1800  # of half of all tests that any mutant names, on a busy machine
FAILED = 1  # pytest's exit status; 2 and more are troubles of another kind, such as a file that can't be imported
# Order is by file, so that a run repeats itself; the last two only cost half of the start of each run.
_PLUGINS_LEFT_OUT = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:hypothesispytest", "-p", "no:anyio")
_NOTICED_BY = re.compile(r"^FAILED (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is pytest's; `noticed_by` is the first test that failed, "" where none did."""

    status: int
    noticed_by: str
    output: str


class Tree:
    def __init__(self, directory: Path):
        self._directory = directory
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, directory / name)
        subprocess.run([sys.executable, "-m", "compileall", "-q", directory], check=True)

    def outcome_with(self, mutant: Mutant | ScriptMutant) -> Outcome:
        path = self._directory / mutant.file
        text, times = path.read_text(), path.stat()
        path.write_text(mutant.applied_to(text))
        try:
            return self.outcome(mutant.tests)
        finally:
            path.write_text(text)
            # Python takes compiled code by the time and size of its source.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def outcome_unchanged(self, tests: Iterable[str]) -> Outcome:
        """A test of a file that is named whole is not named again."""
        named = set(tests)
        return self.outcome(
            sorted(test for test in named if "::" not in test or test.partition("::")[0] not in named),
            UNCHANGED_SECONDS,
            UNCHANGED_TEST_SECONDS,
        )

    def outcome(self, tests: Iterable[str], seconds: float = RUN_SECONDS, test_seconds: float = TEST_SECONDS) -> Outcome:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", *_PLUGINS_LEFT_OUT]
        command += ["-o", "addopts=--import-mode=importlib", "-o", f"timeout={test_seconds}", *(f"tests/{test}" for test in tests)]
        # Compiled code of a mutant must not outlive it; that of the tree as it is was written when it was made.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            run = subprocess.run(
                command, cwd=self._directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return Outcome(-1, "", f"not finished within {seconds:.0f} s")
        output = run.stdout.decode(errors="replace")
        found = _NOTICED_BY.search(output)
        return Outcome(run.returncode, found[1] if found and run.returncode == FAILED else "", output)
