"""Notifications to systemd over a real datagram socket, and without one."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from foundation.system.systemd_notifier import SystemdNotifier, watchdog_seconds


def manager() -> SystemdNotifier:
    return SystemdNotifier(lambda: "ready; provider: degraded")


@pytest.fixture(params=["path", "abstract"])
def notifications(request, monkeypatch, tmp_path) -> Iterator[Callable[[], list[str]]]:
    address = f"@gate-tests-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        listening.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield lambda: listening.recv(1024).decode().split("\n")


def test_without_notify_socket_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not manager().is_enabled
    SystemdNotifier(lambda: pytest.fail("without a socket")).notify_ready()


def test_a_manager_that_is_gone_is_no_failure(monkeypatch, tmp_path):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    manager().notify_stopping()


def test_lifecycle_is_notified_with_status(notifications):
    notifier = manager()
    assert notifier.is_enabled
    status = "STATUS=ready; provider: degraded"
    notifier.notify_ready()
    assert notifications() == ["READY=1", status]
    earliest = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.notify_reloading()
    start, at, status_line = notifications()
    assert (start, status_line) == ("RELOADING=1", status)
    assert earliest <= int(at.removeprefix("MONOTONIC_USEC=")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notifier.notify_reloaded()
    assert notifications() == ["READY=1", status]
    notifier.notify_stopping()
    assert notifications() == ["STOPPING=1", status]


def test_a_reload_ends_neither_a_start_nor_a_stop(notifications):
    notifier = manager()
    notifier.notify_reloading()
    notifier.notify_reloaded()
    notifier.notify_ready()
    notifier.notify_stopping()
    notifier.notify_reloading()
    notifier.notify_reloaded()
    assert [notifications()[0], notifications()[0]] == ["READY=1", "STOPPING=1"]
    with pytest.raises(BlockingIOError):
        notifications()


async def test_it_beats_while_the_event_loop_turns_and_not_while_it_stands_still(notifications, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "30000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    beating = asyncio.create_task(manager().send_watchdog_pings())
    for _ in range(2):
        while True:
            await asyncio.sleep(0)
            with suppress(BlockingIOError):
                assert notifications()[0] == "WATCHDOG=1"
                break
    time.sleep(0.05)  # five pauses long
    with pytest.raises(BlockingIOError):
        notifications()
    beating.cancel()


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "SELF"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "PARENT"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "ANOTHER"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_counts_for_the_process_that_it_names_and_those_that_this_one_forks(expected, seconds, monkeypatch):
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    # Asked here: another process may have collected the tests.
    ids = {"SELF": os.getpid(), "PARENT": os.getppid(), "ANOTHER": os.getpid() + os.getppid()}
    for name, value in expected.items():
        monkeypatch.setenv(name, str(ids.get(value, value)))
    assert watchdog_seconds() == seconds
