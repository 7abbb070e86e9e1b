"""Shared fixtures of unit tests: minimal options, store and broker, and fixtures that restore process state."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from config.options import Options
from databroker.store.memory import MemoryStore
from foundation.telemetry import logs, metrics
from foundation.telemetry.http_metrics import HttpMetrics
from foundation.telemetry.logs import QUIET_LOGGERS
from tests.support.clock import Clock
from tests.support.options import make_options


@pytest.fixture(autouse=True, scope="module")
def _calls_forgotten() -> Iterator[None]:
    """Each port of a test is a separate series, and a reader of one sample builds all of them."""
    yield
    for families in (metrics.http_client, metrics.http_server):
        families._series.clear()
    HttpMetrics.server.cache_clear()
    HttpMetrics.client.cache_clear()


@pytest.fixture
def logging_restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests that configure logging, which is the process's."""
    monkeypatch.setattr(logs, "_is_readable", False)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configured = structlog.get_config()
    levels = {name: logging.getLogger(name).level for name in (*QUIET_LOGGERS, "django.request", "gate.access")}
    filters = list(logging.getLogger("django.request").filters)
    yield
    logging.getLogger("django.request").filters[:] = filters
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**configured)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return make_options(tmp_path)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def broker(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)
