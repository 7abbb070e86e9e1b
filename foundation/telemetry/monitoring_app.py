"""Monitoring endpoints at `metrics_address`: an ASGI application with `/metrics`, `/readyz` and `/livez`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from foundation.readiness import ReadinessReport
from foundation.web.asgi_types import Send, respond
from foundation.web.languages import preferred_media_type

_PLAIN = "text/plain; charset=utf-8"


class MonitoringApp:
    """ASGI application of the endpoints, which never reads a request body.

    `metrics` renders `/metrics`, one request at a time. Readiness reasons are for operators, so access must be restricted.
    """

    def __init__(self, metrics: Callable[[], Awaitable[bytes]], readiness: Callable[[], ReadinessReport]):
        self._metrics = metrics
        self._readiness = readiness
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, scope: dict[str, Any], receive: object, send: Send) -> None:
        pages = {"/metrics": self._metrics_page, "/readyz": self._readiness_page, "/livez": self._liveness_page}
        page, headers = pages.get(scope["path"]), [(b"cache-control", b"no-store")]
        if page is None:
            status, content_type, body = 404, _PLAIN, b"not found: there are /metrics, /readyz and /livez\n"
        elif scope["method"] not in ("GET", "HEAD"):
            status, content_type, body = 405, _PLAIN, b"use GET\n"
            headers.append((b"allow", b"GET, HEAD"))
        else:
            status, content_type, body = await page(scope)
        await respond(send, status, [(b"content-type", content_type.encode()), *headers], body)

    async def _metrics_page(self, scope: dict[str, Any]) -> tuple[int, str, bytes]:
        async with self._one_at_a_time:
            return 200, CONTENT_TYPE_PLAIN_0_0_4, await self._metrics()

    async def _readiness_page(self, scope: dict[str, Any]) -> tuple[int, str, bytes]:
        report = self._readiness()
        if _accepts_json(scope):
            return report.status, "application/json", report.as_json().encode()
        return report.status, _PLAIN, report.as_text().encode()

    async def _liveness_page(self, scope: dict[str, Any]) -> tuple[int, str, bytes]:
        return 200, _PLAIN, b"OK\n"


def _accepts_json(scope: dict[str, Any]) -> bool:
    format = parse_qs(scope.get("query_string", b"").decode("ascii", "replace")).get("format")
    accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return format == ["json"] or (format is None and preferred_media_type(accept.decode("ascii", "replace")) == "json")
