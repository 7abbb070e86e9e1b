"""What systemd is told, over a real datagram socket; nobody has to listen."""

import os
import socket

import pytest

from foundation import service_manager


def test_who_is_not_asked_tells_nobody(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not service_manager.is_asking()
    service_manager.tell(service_manager.READY)


@pytest.mark.parametrize("is_abstract", [False, True])
def test_what_is_told_arrives_as_one_message(is_abstract, monkeypatch, tmp_path):
    address = f"@gate-tests-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{address[1:]}" if is_abstract else address)
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        assert service_manager.is_asking()
        service_manager.tell(service_manager.ALIVE, "STATUS=ready")
        assert manager.recv(1024) == b"WATCHDOG=1\nSTATUS=ready"


def test_a_manager_that_is_gone_is_no_failure(monkeypatch, tmp_path):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    service_manager.tell(service_manager.STOPPING)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_counts_for_the_process_that_it_names(said, seconds, monkeypatch):
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert service_manager.watchdog_seconds() == seconds
