"""A pseudo-terminal for a program."""

import codecs
import os
import pty
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.children import ROOT, clean_environment, wait_until


class Terminal:
    """Terminal of a Python program."""

    def __init__(self, *command: str | Path):
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # SIGINT is ignored in background processes of a shell
            os.execve(sys.executable, [sys.executable, *map(str, command)], clean_environment(PYTHONUNBUFFERED="1"))
        self.screen = ""
        self._answered = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                got = os.read(self._terminal, 4096)
            except OSError:
                return
            if not got:
                return
            self.screen += decoder.decode(got)

    def answer(self, question: str, answer: str = "") -> None:
        """Wait until the program has written `question` since the last line, then type a line."""

        def waits() -> bool:
            return question in self.screen[self._answered :] and self.screen.endswith((": ", "? ", "] ", ". "))

        try:
            wait_until(waits, question)
        except AssertionError as error:
            raise AssertionError(f"{question} is not in {self.screen[-600:]!r}") from error
        self._answered = len(self.screen)
        os.write(self._terminal, answer.encode() + b"\n")

    def sees(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.screen.count(text) >= times, f"{text} {times} times in {self.screen[-600:]!r}")

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.kill(self.pid, signal.SIGINT)

    def ended(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


@contextmanager
def terminal(*command: str | Path) -> Iterator[Terminal]:
    opened = Terminal(*command)
    try:
        yield opened
    finally:
        os.close(opened._terminal)
