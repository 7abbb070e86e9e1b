"""Span exporter to a back-end, which may be away; on the thread of OpenTelemetry's batch processor, never a request's."""

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
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds in which a back-end that failed is left alone

Spans = Sequence[ReadableSpan]
Send = Callable[[Spans], None]


class SpansRejected(Exception):
    """The back-end answered, and did not take the spans."""


class Exporter(SpanExporter):
    """Exporter with backoff: while a back-end fails, its spans are dropped and counted, and it is asked ever more rarely; the log says
    so once.
    """

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
        except (OSError, ValueError, httpx.HTTPError, SpansRejected) as error:
            if not self._failures:
                log.warning("trace export failed", target=self._target, problem=_words(error))
            self._not_before = self._clock() + backoff_delay(self._failures, FIRST_PAUSE, LONGEST_PAUSE)
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


def exporter(back_end: str, target: Url | HostPort, service: str, authorities: bytes | None) -> Exporter:
    """The exporter of a back-end; `target` is a URL for all but the agents."""
    if back_end == "monitor":
        url = f"http://{target}/v0.4/traces"
        return Exporter(lambda spans: _post(url, datadog.encoded(spans, service), datadog.headers(spans), None, "PUT"), url)
    if isinstance(target, HostPort):
        return Exporter(lambda spans: _datagrams(target, jaeger.datagrams(spans, service)), f"udp://{target}")
    url, tls = str(target), client_context(authorities) if target.scheme == "https" else None
    encode: Callable[[Spans], bytes] = {
        "thrift": lambda spans: jaeger.batch(spans, service),
        "span": lambda spans: zipkin.encoded(spans, service),
        "otlp": lambda spans: encode_spans(spans).to_json().encode(),
    }[back_end]
    media_type = jaeger.MEDIA_TYPE if back_end == "thrift" else "application/json"
    # The log names the target without its query: some back-ends take a key there.
    return Exporter(lambda spans: _post(url, encode(spans), {"Content-Type": media_type}, tls), f"{target.origin}{target.path}")


def _post(url: str, body: bytes, headers: dict[str, str], tls: ssl.SSLContext | None, method: str = "POST") -> None:
    """Post spans on a connection of its own: there is one batch in seconds, and none to keep alive through a reload."""
    # trust_env off: a proxy variable would send what the setting names elsewhere.
    with (
        httpx.Client(verify=tls or False, timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client,
        client.stream(method, url, content=body, headers={"User-Agent": "gate", **headers}) as answer,
    ):
        if not answer.is_success:
            raise SpansRejected(f"the response has status {answer.status_code}")


def _datagrams(address: HostPort, datagrams: list[bytes]) -> None:
    """Send spans as datagrams; to an agent that has gone they are lost without a word."""
    family, kind, protocol, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as sender:
        for datagram in datagrams:
            sender.sendto(datagram, where)


def _words(error: Exception) -> str:
    """Words of an error for our log; a response's own do not belong there."""
    return str(error) if isinstance(error, SpansRejected) else type(error).__name__
