"""B40: is one whole configuration in force at every instant, whatever is written into the file during a reload?"""

import itertools
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.config_reload import RELOADED, Run, write
from bench.support.harness import child, free_port, gate_settings, wait_for
from tests.attack.run import ACCEPTED, Case, Failed, Outcome, attack, expect
from tests.attack.target import Target

GATES = 40
RELOADS = 25  # of each gate: a thousand together
REFUSED_LINE = "configuration rejected"
BROKEN = (
    b"",
    b"policy: [",
    b"cookie_secret: x\n",
    b"\0",
    b"a: &a [*a]",
    b"[" * 10_000,
    b"policy: !!python/object/apply:os.system [id]",
    b"\xff\xfe",
)


@attack("B40", "reloads under load, half of them broken", together=1, sample=1, minutes=5)
def reloads(target: Target) -> Iterator[Case]:
    for number in range(GATES):
        yield Case(f"gate {number}", partial(_reload_again_and_again, number))


class _WithBrokenFiles(Run):
    """Each good file comes after a broken one, which must change nothing."""

    broken = itertools.cycle(BROKEN)

    def _reload(self, world: int) -> None:
        self._put(next(self.broken))
        self._process.send_signal(signal.SIGHUP)
        self._wait_for(REFUSED_LINE)
        write(self._config, self._settings, self._upstream, world)
        self._process.send_signal(signal.SIGHUP)
        self._wait_for(RELOADED)

    def _put(self, content: bytes) -> None:
        new = self._config.with_suffix(".broken")
        new.write_bytes(content)
        new.replace(self._config)

    def _wait_for(self, text: str) -> None:
        for line in self._process.stdout or ():
            if text in line:
                return
            if "Traceback" in line or ('"error"' in line and REFUSED_LINE not in line):
                raise Failed(f"the log says: {line}")
        raise Failed(f"gate has ended before its log said {text!r}")


async def _reload_again_and_again(number: int, target: Target) -> Outcome:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-b40-")))
        upstream, port = free_port(), free_port()
        config = directory / "config.yaml"
        settings = {**gate_settings(directory, port, "http://127.0.0.1:9", ""), "log_level": "info", "proxy_log_level": "error"}
        write(config, settings, upstream, 0)
        command = [sys.executable, "manage.py", "rungate", "-config", str(config)]
        process = stack.enter_context(child(command, core=number % 2, stdout=subprocess.PIPE))
        wait_for(port)
        count = await _WithBrokenFiles(process, config, settings, upstream, port).measure(RELOADS)
        expect(process.poll() is None, "gate has died")
    expect(count["failed"] == 0, f"{count['failed']} of {count['asked']} requests failed")
    expect(count["mixed"] == 0, f"{count['mixed']} answers were made of two configurations")
    expect(count["worlds"] >= RELOADS // 2, f"only {count['worlds']} configurations were seen in force")
    return ACCEPTED
