"""`-p tests.support.forks --forks=3`: tests in three concurrent processes, forked from the process that has collected them.

A process takes one file at a time, because the tests of a file share fixtures. pytest-xdist does the same at twice the cost:
each of its processes collects the tests again, and exchanges six messages per test.
"""

import ctypes
import importlib
import os
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Iterator
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

_NUMBER = struct.Struct("I")
PR_SET_PDEATHSIG = 1  # prctl(2)
MIN_REPORTED = 0.1  # seconds spent in setup or teardown, for the list of the slowest tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="number of concurrent test processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = session.config.getoption("forks")
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    assert threading.active_count() == 1, "a file of tests starts a thread when it is imported"
    files = [list(tests) for _, tests in groupby(session.items, lambda item: item.path)]
    queue, filling = os.pipe()
    os.write(filling, b"".join(map(_NUMBER.pack, range(len(files)))))  # a pipe has room for sixteen thousand numbers
    os.close(filling)
    session.config.get_terminal_writer().flush()
    if (prepared := sys.modules.get("tests.support.fork_server")) is not None:
        prepared.begin()  # shared by all processes
    processes: dict[Connection, int] = {}
    for _ in range(min(count, len(files))):
        line, write_end = Pipe(duplex=False)
        if (process := os.fork()) == 0:
            for other in (line, *processes):
                other.close()
            return _test(session, _next_items(files, queue), write_end)
        write_end.close()
        processes[line] = process
    try:
        _listen(session, list(processes), queue)
    finally:
        codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes.values()]
    if any(codes) and not session.testsfailed:
        session.shouldfail = f"all tests passed, but their processes ended with {codes}"
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def _listen(session: pytest.Session, lines: list[Connection], queue: int) -> None:
    hook, untold = session.config.hook, {item.nodeid: item.location for item in session.items}
    while lines:
        for line in wait(lines):
            assert isinstance(line, Connection)
            try:
                message = line.recv()
            except EOFError:
                lines.remove(line)
                continue
            if isinstance(message, dict):
                hook.pytest_warning_recorded.call_historic(kwargs=message)
                continue
            for report in message:
                untold.pop(report.nodeid, None)
                hook.pytest_runtest_logreport(report=report)
            while session.shouldfail and os.read(queue, 4096):
                pass  # no process takes another file
    if session.shouldfail:
        return
    for name, location in untold.items():
        reason = "Its process ended before this test did."
        hook.pytest_runtest_logreport(report=pytest.TestReport(name, location, {}, "failed", reason, "call"))


class Reporter:
    """Replacement of pytest's reporter in a test process: sends the results to the first process."""

    def __init__(self, line: Connection):
        self._line, self._reports = line, list[pytest.TestReport]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed or report.duration > MIN_REPORTED:
            self._reports.append(report)

    def pytest_runtest_logfinish(self) -> None:
        self._line.send(self._reports)
        self._reports = []

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any) -> None:
        text, at = str(warning_message.message), (warning_message.filename, warning_message.lineno)
        warning = warnings.WarningMessage(text, warning_message.category, *at)
        self._line.send({"warning_message": warning, "when": when, "nodeid": nodeid, "location": location})


def _test(session: pytest.Session, items: Iterator[pytest.Item], line: Connection) -> bool:
    _stop_with_parent()
    config, plugins = session.config, session.config.pluginmanager
    config.workerinput = {}  # type: ignore[attr-defined] - marks a worker whose results another process reports
    plugins.unregister(plugins.getplugin("terminalreporter"))
    plugins.register(Reporter(line))
    # Processes can't share the file that captures output, and the event loop that Daphne creates at import.
    capturing = plugins.getplugin("capturemanager")
    capturing.stop_global_capturing()
    capturing.start_global_capturing()
    if "twisted.internet.reactor" in sys.modules:
        importlib.import_module("proxy.listener.event_loop").replace_event_loop()
    item = next(items, None)
    while item is not None and not session.shouldfail:
        following = next(items, None)
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    return True


def _stop_with_parent() -> None:
    """Interrupt the tests of this process when the first one has been killed, so that fixtures stop what they have started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _next_items(files: list[list[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    while number := os.read(queue, _NUMBER.size):
        yield from files[_NUMBER.unpack(number)[0]]
