"""Autocert's background thread: reconfiguration, errors and shutdown."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from proxy.autocert.autocert_service import Autocert
from tests.support.children import free_port, wait_until
from tests.support.options import make_options


@pytest.fixture
def log() -> Iterator[list]:
    with structlog.testing.capture_logs() as events:
        yield events


ON = {"insecure_server": None, "autocert": True}


def test_disabled_autocert_starts_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    autocert = Autocert()
    autocert.start(make_options(tmp_path))
    assert threading.active_count() == before
    assert not autocert.acme_state.is_enabled
    autocert.stop()


def test_unavailable_authority_blocks_nothing(tmp_path: Path) -> None:
    autocert = Autocert()
    autocert.start(make_options(tmp_path, **ON, autocert_ca=f"https://127.0.0.1:{free_port()}/dir"))
    wait_until(lambda: autocert.acme_state.is_enabled, "it is on")
    attempts = tmp_path / "data" / "autocert"
    wait_until(lambda: any(attempts.rglob("attempts.json")), "the failure is kept")
    assert autocert.acme_state.contexts == {}
    autocert.reconfigure(make_options(tmp_path))
    wait_until(lambda: not autocert.acme_state.is_enabled, "it is off")
    assert autocert.acme_state.pending_challenge("auth.example.com") is None
    autocert.stop()
    wait_until(lambda: autocert._thread is not None and not autocert._thread.is_alive(), "the thread has ended")


def test_nothing_starts_without_listener(tmp_path: Path) -> None:
    before = threading.active_count()
    Autocert().reconfigure(make_options(tmp_path, **ON))
    assert threading.active_count() == before


def test_unusable_directory_is_logged_and_retried(tmp_path: Path, log: list) -> None:
    (tmp_path / "file").write_bytes(b"")
    autocert = Autocert()
    autocert.start(make_options(tmp_path, **ON, autocert_ca="https://127.0.0.1:1/dir", autocert_dir=str(tmp_path / "file")))
    wait_until(lambda: any(entry["event"] == "certificate directory unusable" for entry in log), "it is told")
    autocert.reconfigure(make_options(tmp_path, **ON, autocert_ca="https://127.0.0.1:1/dir", autocert_dir=str(tmp_path / "good")))
    wait_until(lambda: autocert.acme_state.is_enabled, "it is on")
    autocert.stop()
    wait_until(lambda: autocert._thread is not None and not autocert._thread.is_alive(), "the thread has ended")
