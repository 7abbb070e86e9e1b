"""Tests in several processes report the same outcomes as tests in one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.test_layout import ROOT
from tests.support import fork_server
from tests.support.children import wait_until

OUTCOMES = """
import sys, warnings
import pytest

@pytest.fixture
def broken():
    raise OSError("no fixture")

def test_that_passes():
    print("captured output")

def test_that_fails():
    print("output of the failing test")
    assert 1 + 1 == 3

def test_with_a_broken_fixture(broken):
    pass

@pytest.mark.skip(reason="not today")
def test_that_is_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_that_is_known_to_fail():
    assert 0

def test_that_warns():
    warnings.warn("beware", UserWarning)
"""
PASSES = "import time\ndef test_that_passes_too():\n    time.sleep(0.05)\n"
DIES = "import os\ndef test_that_kills():\n    os._exit(0)\ndef test_that_would_follow():\n    pass\n"
STOPS = "import pytest\ndef test_that_stops_all():\n    pytest.exit('no more')\n"
WAITS = """
import pathlib, subprocess, sys, time
import pytest
from tests.support.fork_server import python

@pytest.fixture
def program():
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()

def test_that_waits(program):
    with python("-c", "import time; time.sleep(600)") as child:
        pathlib.Path("children.tmp").write_text(f"{program.pid} {child.process.pid}")
        pathlib.Path("children.tmp").rename("children")
        time.sleep(600)
"""
LEAKS = "import atexit, os\ndef test_that_passes():\n    atexit.register(os._exit, 3)\n"


def start(directory: Path, *arguments: str, **files: str) -> "subprocess.Popen[str]":
    for name, content in files.items():
        (directory / f"test_{name}.py").write_text(content)
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.forks", "-ra", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def report(directory: Path, *arguments: str, **files: str) -> tuple[int, str]:
    with start(directory, *arguments, **files) as run:
        text, _ = run.communicate()
    return run.returncode, text


@pytest.mark.parametrize("forks", ["--forks=0", "--forks=2"])
def test_every_outcome_is_reported(forks: str, tmp_path: Path) -> None:
    status, text = report(tmp_path, forks, outcomes=OUTCOMES, passes=PASSES)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 3 passed, 1 skipped, 1 xfailed, 1 warning, 1 error in" in text
    assert "assert (1 + 1) == 3" in text
    assert text.count("output of the failing test") == 2  # by the source and by the test
    assert "captured output" not in text
    assert "UserWarning: beware" in text
    assert "OSError: no fixture" in text
    assert "not today" in text


@pytest.mark.parametrize(
    ("content", "lost"), [(DIES, ["test_that_kills", "test_that_would_follow"]), (STOPS, ["test_that_stops_all"])], ids=["dies", "stops"]
)
def test_tests_not_run_by_an_ended_process_have_failed(content: str, lost: list[str], tmp_path: Path) -> None:
    status, text = report(tmp_path, "--forks=2", ends=content)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert [line for line in text.splitlines() if line.startswith("FAILED")] == [
        f"FAILED test_ends.py::{name} - Its process ended before this test did." for name in lost
    ]


def test_process_that_fails_after_its_tests_is_reported(tmp_path: Path) -> None:
    status, text = report(tmp_path, "--forks=2", leaks=LEAKS)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "all tests passed, but their processes ended with [3]" in text


def test_no_file_starts_after_the_last_allowed_failure(tmp_path: Path) -> None:
    later = {f"z{number}": PASSES for number in range(20)}
    status, text = report(tmp_path, "--forks=1", "-x", fails="def test_that_fails():\n    assert 0\n", **later)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "stopping after 1 failures" in text
    assert "1 failed in" in text


def test_killed_run_leaves_no_children(tmp_path: Path) -> None:
    children = tmp_path / "children"
    with start(tmp_path, "--forks=2", waits=WAITS, passes=PASSES) as run:
        wait_until(children.exists, "the test has started its children")
        run.kill()
    for process in children.read_text().split():
        wait_until(lambda process=process: not is_running(int(process)), f"process {process} has ended")


def is_running(process: int) -> bool:
    """Return False also for a process that has exited but was not waited for."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_process_can_be_prepared_without_the_settings_of_a_gate() -> None:
    assert fork_server.run("-c", "print(1)").stdout == "1\n"
