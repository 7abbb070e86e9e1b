"""Log format: JSON by default, coloured text with gate_debug, for gate and all libraries."""

import json
import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

# Libraries whose info level is not relevant to operators.
QUIET_LOGGERS = (
    *("daphne", "django.channels", "asyncio", "httpx", "httpcore", "aiohttp", "mozilla_django_oidc", "urllib3"),
    *("opentelemetry", "acme"),
)


# Fields that every line of this process has if there are several processes: `{"worker": 2}`.
worker: dict[str, int] = {}

_access = logging.getLogger("gate.access")
_is_readable = False


@lru_cache(2)
def _second(now: int) -> str:
    """Format a Unix second; cached, because hundreds of lines share it."""
    return datetime.fromtimestamp(now, UTC).isoformat().removesuffix("+00:00")


def log_access(level: int, fields: dict[str, Any]) -> None:
    """Write the access log line of one request.

    It is written directly, in the format of all other lines, because structlog took a third of the data plane's time (bench/peers.py, with
    and without access log).
    """
    if _is_readable:
        structlog.get_logger("gate.access").log(level, "request", **fields)
        return
    now, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    if worker:
        fields = {**worker, **fields}
    name = "warning" if level >= logging.WARNING else "info"
    sys.stdout.write(json.dumps({"event": "request", "level": name, "time": f"{_second(now)}.{microseconds:06}Z", **fields}) + "\n")
    sys.stdout.flush()


def log_access_lazy(level: int, build_fields: Callable[[], dict[str, Any]]) -> None:
    """Write the access log line of one request; `build_fields` is called only if the level is enabled."""
    if _access.isEnabledFor(level):
        log_access(level, build_fields())


def configure_logs(level: str, access_level: str, *, readable: bool) -> None:
    """Configure logging; `access_level` applies to the lines about proxied requests."""
    global _is_readable
    _is_readable = readable
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
        _add_worker,
    ]
    # The default format of exceptions has local variables, and so secrets, where rich is installed.
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer = console if readable else structlog.processors.JSONRenderer()
    finish = [renderer] if readable else [structlog.processors.format_exc_info, renderer]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = _ToStandardOutput()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _add_request_id], processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    _access.setLevel(LEVELS[access_level])
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(LEVELS[level], logging.WARNING))
    # Django logs each response of 400 and above; intentional ones have an access log line already.
    logging.getLogger("django.request").setLevel(logging.ERROR)
    logging.getLogger("django.request").addFilter(_has_exception)


def _has_exception(record: logging.LogRecord) -> bool:
    return record.exc_info is not None


class _ToStandardOutput(logging.StreamHandler[TextIO]):
    """Log handler that writes to the current `sys.stdout`, which telemetry/output.py may replace."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout


def _add_worker(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the worker number to a log event."""
    event.update(worker)
    return event


def _add_request_id(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the request id to an error that Django logs; the error page shows the same id."""
    request = getattr(event["_record"], "request", None)
    if request is not None and "gate" in getattr(request, "scope", {}):
        event["request_id"] = request.scope["gate"].request_id
    return event


log = structlog.get_logger(__name__)

MAX_LINES = 10  # per event and second
SUPPRESSED = "log lines were suppressed"


class BoundedLog:
    """Rate-limited log of one event. The number of suppressed lines is logged before the next line."""

    def __init__(self, event: str, *, level: str = "warning", clock: Callable[[], float] = time.monotonic):
        self._event, self._level = event, level
        self._clock = clock
        self._second = 0.0
        self._lines = self._suppressed = 0

    def emit(self, **fields: Any) -> None:
        now = self._clock()
        if now - self._second >= 1.0:
            self._log_suppressed()
            self._second, self._lines = now, 0
        if self._lines < MAX_LINES:
            self._lines += 1
            getattr(log, self._level)(self._event, **fields)
        else:
            self._suppressed += 1

    def _log_suppressed(self) -> None:
        if self._suppressed:
            getattr(log, self._level)(SUPPRESSED, suppressed_event=self._event, lines=self._suppressed)
            self._suppressed = 0
