"""A child process dies with its parent, even after SIGKILL."""

import os
import signal
import subprocess
import sys

from proxy.envoy.process import launch
from tests.support.children import wait_until

PARENT = """
import os, subprocess, sys
program = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
child = subprocess.Popen([sys.executable, "-I", sys.argv[1], str(os.getpid()), *program])
print(child.pid, flush=True)
child.wait()
"""


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_exits_with_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, launch.__file__], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        payload = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
        (pid,) = (int(each) for each in payload if each.isdigit())
        assert "up" in payload
        assert is_running(pid)
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: not is_running(pid), "the child ends")


def test_starts_nothing_if_parent_has_exited() -> None:
    command = [sys.executable, "-I", launch.__file__, str(os.getpid() + 1_000_000), sys.executable, "-c", "print('up')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (done.stdout, done.stderr.strip()) == ("", "its parent has ended")
