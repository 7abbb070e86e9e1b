import json
from typing import Any

import pytest

from foundation.readiness import ReadinessReport, degraded, failing
from foundation.telemetry.monitoring_app import MonitoringApp

REPORTS = {
    200: ReadinessReport((degraded("provider", "away"),)),
    503: ReadinessReport((failing("data broker", "no word"),)),
}


async def fetch(
    path: str, *, method: str = "GET", query: bytes = b"", accept: bytes = b"", status: int = 200
) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def metrics() -> bytes:
        return b"up 1\n"

    headers = [(b"accept", accept)] if accept else []
    scope = {"path": path, "method": method, "query_string": query, "headers": headers}
    await MonitoringApp(metrics, lambda: REPORTS[status])(scope, None, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


@pytest.mark.parametrize("status", REPORTS)
async def test_readiness_is_text_with_its_status(status):
    answer = await fetch("/readyz", status=status)
    assert (answer[0], answer[1][b"content-type"], answer[2].decode()) == (status, b"text/plain; charset=utf-8", REPORTS[status].as_text())
    assert answer[1][b"cache-control"] == b"no-store"


@pytest.mark.parametrize(
    ("query", "accept", "is_json"),
    [
        (b"", b"application/json", True),
        (b"format=json", b"", True),
        (b"format=json", b"text/plain", True),
        (b"format=text", b"application/json", False),
        (b"", b"*/*", False),
        (b"", b"text/html,*/*", False),
        (b"format=%ff", b"\xff", False),
    ],
)
async def test_readiness_is_json_if_accepted(query, accept, is_json):
    status, headers, body = await fetch("/readyz", query=query, accept=accept)
    assert status == 200
    assert (headers[b"content-type"] == b"application/json") is is_json
    assert (body.startswith(b"{") and bool(json.loads(body))) is is_json


async def test_responding_process_is_alive():
    assert (await fetch("/livez", status=503))[::2] == (200, b"OK\n")


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/livez"])
async def test_nothing_is_to_be_posted(path):
    status, headers, _ = await fetch(path, method="POST")
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")
    assert (await fetch(path, method="HEAD"))[0] == 200


@pytest.mark.parametrize("path", ["/", "/metrics/", "/readyz/", "/ping", "/.gate/readyz"])
async def test_there_is_nothing_else(path):
    assert (await fetch(path))[0] == 404
