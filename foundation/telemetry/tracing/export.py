"""Span exporters of the tracing backends; they run on the thread of OpenTelemetry's batch processor."""

import socket
import ssl
import time
from collections.abc import Callable, Sequence

import httpx
import structlog
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from foundation.backoff import backoff_delay
from foundation.client_tls import client_context
from foundation.telemetry.metrics import spans_dropped
from foundation.telemetry.tracing import datadog, jaeger, zipkin
from foundation.values import HostPort, Url

log = structlog.get_logger(__name__)

TIMEOUT = 5.0  # seconds
INITIAL_BACKOFF, MAX_BACKOFF = 1.0, 300.0  # seconds between attempts after a failure

Spans = Sequence[ReadableSpan]
Send = Callable[[Spans], None]


class ExportRejected(Exception):
    """The backend responded with an error status."""


class Exporter(SpanExporter):
    """Exporter with backoff. While the backend fails, spans are dropped and counted, and one warning is logged."""

    def __init__(self, send: Send, target: str, clock: Callable[[], float] = time.monotonic):
        self._send = send
        self._target = target
        self._clock = clock
        self._failures = 0
        self._not_before = 0.0

    def export(self, spans: Spans) -> SpanExportResult:
        if self._failures and self._clock() < self._not_before:
            return self._drop(spans)
        try:
            self._send(spans)
        except (OSError, ValueError, httpx.HTTPError, ExportRejected) as error:
            if not self._failures:
                log.warning("trace export failed", target=self._target, problem=_describe(error))
            self._not_before = self._clock() + backoff_delay(self._failures, INITIAL_BACKOFF, MAX_BACKOFF)
            self._failures += 1
            return self._drop(spans)
        if self._failures:
            log.info("trace export recovered", target=self._target)
            self._failures = 0
        return SpanExportResult.SUCCESS

    def _drop(self, spans: Spans) -> SpanExportResult:
        spans_dropped.inc(len(spans))
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def exporter(backend: str, target: Url | HostPort, service: str, authorities: bytes | None) -> Exporter:
    """Return the exporter for a backend; `target` is a `HostPort` for the agents, else a URL."""
    if backend == "monitor":
        url = f"http://{target}/v0.4/traces"
        return Exporter(lambda spans: _post(url, datadog.encode(spans, service), datadog.request_headers(spans), None, "PUT"), url)
    if isinstance(target, HostPort):
        return Exporter(lambda spans: _send_datagrams(target, jaeger.encode_datagrams(spans, service)), f"udp://{target}")
    url, tls = str(target), client_context(authorities) if target.scheme == "https" else None
    encode: Callable[[Spans], bytes] = {
        "thrift": lambda spans: jaeger.encode_batch(spans, service),
        "span": lambda spans: zipkin.encode(spans, service),
        "otlp": lambda spans: encode_spans(spans).to_json().encode(),
    }[backend]
    media_type = jaeger.MEDIA_TYPE if backend == "thrift" else "application/json"
    # The target is logged without its query, which may have an API key.
    return Exporter(lambda spans: _post(url, encode(spans), {"Content-Type": media_type}, tls), f"{target.origin}{target.path}")


def _post(url: str, body: bytes, headers: dict[str, str], tls: ssl.SSLContext | None, method: str = "POST") -> None:
    """Post spans on a new connection: batches are seconds apart, and no connection must survive a reload."""
    # trust_env off, because a proxy environment variable must not redirect spans.
    with (
        httpx.Client(verify=tls or False, timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client,
        client.stream(method, url, content=body, headers={"User-Agent": "gate", **headers}) as response,
    ):
        if not response.is_success:
            raise ExportRejected(f"the response has status {response.status_code}")


def _send_datagrams(address: HostPort, datagrams: list[bytes]) -> None:
    """Send spans as datagrams, which are lost silently if the agent is down."""
    family, kind, protocol, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as sender:
        for datagram in datagrams:
            sender.sendto(datagram, where)


def _describe(error: Exception) -> str:
    """Describe an error for the log, without text from a response."""
    return str(error) if isinstance(error, ExportRejected) else type(error).__name__
