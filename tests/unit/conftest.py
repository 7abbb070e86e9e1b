"""What unit tests share that change what the whole process has."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from foundation.telemetry import logs, metrics
from foundation.telemetry.http_calls import HttpCalls
from foundation.telemetry.logs import QUIET


@pytest.fixture(autouse=True, scope="module")
def _calls_forgotten() -> Iterator[None]:
    """Each port of a test is a series of its own, and for whoever asks for one sample all of them are made."""
    yield
    for families in (metrics.http_client, metrics.http_server):
        families._series.clear()
    HttpCalls.answered.cache_clear()
    HttpCalls.made.cache_clear()


@pytest.fixture
def logging_restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests that configure logging, which is the process's."""
    monkeypatch.setattr(logs, "_is_readable", False)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configured = structlog.get_config()
    levels = {name: logging.getLogger(name).level for name in (*QUIET, "django.request", "gate.access")}
    filters = list(logging.getLogger("django.request").filters)
    yield
    logging.getLogger("django.request").filters[:] = filters
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**configured)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
