"""Log format: JSON by default, coloured and readable with gate_debug; one format for our lines and everybody else's."""

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

# Chatty libraries: what they have to say at info is not an operator's business.
QUIET = (
    *("daphne", "django.channels", "asyncio", "httpx", "httpcore", "aiohttp", "mozilla_django_oidc", "urllib3"),
    *("opentelemetry", "acme"),
)


# What each line says of the process that writes it, where there are several: `{"worker": 2}`.
worker: dict[str, int] = {}

_access = logging.getLogger("gate.access")
_is_readable = False


@lru_cache(2)
def _second(now: int) -> str:
    """Date and time of a second, which hundreds of lines share."""
    return datetime.fromtimestamp(now, UTC).isoformat().removesuffix("+00:00")


def log_access(level: int, fields: dict[str, Any]) -> None:
    """Write the line about one request.

    Written directly, in the same form as every other line: through the general machinery it took a third of the data plane's
    time (bench/peers.py, with and without the access log).
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


def tell_access(level: int, told: Callable[[], dict[str, Any]]) -> None:
    """Write the line about one request, of what is `told` where there is to be a line."""
    if _access.isEnabledFor(level):
        log_access(level, told())


def configure_logs(level: str, access_level: str, *, readable: bool) -> None:
    """Levels are those of the specification; `access_level` applies to the lines about proxied requests."""
    global _is_readable
    _is_readable = readable
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
        _worker_named,
    ]
    renderer = structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer()
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
            foreign_pre_chain=[*shared, _request_named], processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    _access.setLevel(LEVELS[access_level])
    for name in QUIET:
        logging.getLogger(name).setLevel(max(LEVELS[level], logging.WARNING))
    # Django reports each response of 400 and above.  Those that gate sent on purpose have a line of their own.
    logging.getLogger("django.request").setLevel(logging.ERROR)
    logging.getLogger("django.request").addFilter(_has_exception)


def _has_exception(record: logging.LogRecord) -> bool:
    return record.exc_info is not None


class _ToStandardOutput(logging.StreamHandler[TextIO]):
    """Log handler on standard output, whatever that is when a line is written: it may have been replaced since (telemetry/output.py)."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout


def _worker_named(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Log processor: which of several processes says this."""
    event.update(worker)
    return event


def _request_named(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Log processor: a failure that Django reports carries the id that its page shows."""
    request = getattr(event["_record"], "request", None)
    if request is not None and "gate" in getattr(request, "scope", {}):
        event["request_id"] = request.scope["gate"].request_id
    return event


log = structlog.get_logger(__name__)

MAX_LINES = 10  # of one kind, in each second
SUPPRESSED = "log lines were suppressed"


class BoundedLog:
    """Log of one kind of event.  Of those beyond the bound the next second's first line is preceded by their count."""

    def __init__(self, event: str, *, level: str = "warning", clock: Callable[[], float] = time.monotonic):
        self._event, self._level = event, level
        self._clock = clock
        self._second = 0.0
        self._lines = self._suppressed = 0

    def tell(self, **fields: Any) -> None:
        now = self._clock()
        if now - self._second >= 1.0:
            self._tell_suppressed()
            self._second, self._lines = now, 0
        if self._lines < MAX_LINES:
            self._lines += 1
            getattr(log, self._level)(self._event, **fields)
        else:
            self._suppressed += 1

    def _tell_suppressed(self) -> None:
        if self._suppressed:
            getattr(log, self._level)(SUPPRESSED, of=self._event, lines=self._suppressed)
            self._suppressed = 0
