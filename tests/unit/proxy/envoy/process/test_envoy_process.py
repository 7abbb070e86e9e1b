"""Supervision of the Envoy process, with a small executable in its place."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import structlog

from foundation.errors import ConfigError
from proxy.envoy.process import envoy_process
from proxy.envoy.process.envoy_process import EnvoyProcess, find_executable
from tests.support.eventually import eventually


def test_finds_envoy_next_to_interpreter_then_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alongside, elsewhere = tmp_path / "bin", tmp_path / "elsewhere"
    for directory in (alongside, elsewhere):
        directory.mkdir()
    monkeypatch.setattr(sys, "executable", str(alongside / "python"))
    with pytest.raises(ConfigError, match="envoy is not installed"):
        find_executable(str(elsewhere))
    for directory in (elsewhere, alongside):
        (directory / "envoy").write_text("#!/bin/sh\n")
        (directory / "envoy").chmod(0o700)
        assert find_executable(str(elsewhere)) == directory / "envoy"


def executable(directory: Path, text: str) -> Path:
    path = directory / "program"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o700)
    return path


async def test_long_output_lines_are_read(tmp_path: Path) -> None:
    """A process blocks if its output is not read."""
    done = tmp_path / "done"
    text = f"import sys, time\nfor _ in range(20): print('x' * 200_000, flush=True)\nopen({str(done)!r}, 'w')\ntime.sleep(600)\n"
    with structlog.testing.capture_logs() as payload:
        running = EnvoyProcess(executable(tmp_path, text), [], os.getpid(), time.monotonic)
        running.start()
        try:
            await eventually(done.exists)
            await eventually(lambda: len(payload) >= 20)
        finally:
            await running.stop()
    assert {entry["line"] for entry in payload} == {"x" * envoy_process.MAX_LINE_BYTES}


async def test_restarts_after_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envoy_process, "MIN_BACKOFF", 0.01)
    pids = tmp_path / "pids"
    text = f"import os, time\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)\n"
    running = EnvoyProcess(executable(tmp_path, text), [], os.getpid(), time.monotonic)
    running.start()

    def started() -> list[int]:
        return [int(line) for line in pids.read_text().split()] if pids.exists() else []

    try:
        await eventually(lambda: len(started()) == 1)
        assert running.pid == started()[0]
        os.kill(started()[0], signal.SIGKILL)
        await eventually(lambda: len(started()) == 2)
        assert running.pid == started()[1]
    finally:
        await running.stop()
    assert running.pid is None
    assert len(started()) == 2


async def test_kills_envoy_that_does_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envoy_process, "STOP_SECONDS", 0.2)
    up = tmp_path / "up"
    text = f"import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen({str(up)!r}, 'w')\ntime.sleep(600)\n"
    running = EnvoyProcess(executable(tmp_path, text), [], os.getpid(), time.monotonic)
    running.start()
    await eventually(up.exists)
    pid = running.pid
    assert pid is not None
    await running.stop()
    await eventually(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())
