"""Messages of a running gate to systemd, read at a socket in its place: ready, reloading, stopping, status and watchdog."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.children import Child, clean_environment, free_port
from tests.support.fork_server import manage
from tests.support.options import MINIMAL
from tests.support.reloading import rewrite

Word = dict[str, str]


class Listening:
    def __init__(self, path: Path):
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(30)  # only a failing test waits that long

    def next(self) -> Word:
        """The next word but the beats."""
        while True:
            word = self.any()
            if "WATCHDOG" not in word:
                return word

    def any(self) -> Word:
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().split("\n"))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    manager = Listening(tmp_path / "notify")
    yield manager
    manager.close()


def started(directory: Path, listening: Listening, workers: int) -> tuple[Child, Path, int]:
    path, port = directory / "config.yaml", free_port()
    content = {**MINIMAL, "data_dir": str(directory / "data"), "address": f"127.0.0.1:{port}", "workers": str(workers)}
    path.write_text(yaml.safe_dump(content))
    return manage("rungate", "-config", path, environment=clean_environment(NOTIFY_SOCKET=listening.path)), path, port


@pytest.mark.parametrize("workers", [1, 2])
def test_systemd_notifications(workers: int, listening: Listening, tmp_path: Path) -> None:
    gate, path, port = started(tmp_path, listening, workers)
    with gate:
        report = listening.next()
        assert (report["READY"], "ready" in report["STATUS"]) == ("1", True), gate.output
        socket.create_connection(("127.0.0.1", port), 5).close()

        gate.process.send_signal(signal.SIGHUP)
        begin_time = listening.next()
        assert (begin_time["RELOADING"], begin_time["MONOTONIC_USEC"].isdecimal()) == ("1", True)
        done = listening.next()
        assert (done["READY"], "refused" in done["STATUS"]) == ("1", False)

        rewrite(path, cookie_expire="soon")
        assert listening.next()["RELOADING"] == "1"
        refused = listening.next()
        assert (refused["READY"], "was rejected at" in refused["STATUS"], "cookie_expire" in refused["STATUS"]) == ("1", True, True)

        gate.process.send_signal(signal.SIGTERM)
        assert listening.next()["STOPPING"] == "1"
        assert gate.ended() == 0


def test_it_beats(listening: Listening, tmp_path: Path) -> None:
    gate, _, _ = started(tmp_path, listening, 1)
    with gate:
        assert "READY" in listening.any()
        assert listening.any()["WATCHDOG"] == "1"
