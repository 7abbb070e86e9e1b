"""Tracing back-ends for tests: a real HTTP server and a real UDP socket, with parsers that share no code with gate's encoders.

Thrift is parsed by Apache's generated code for Jaeger's definitions, OTLP by OpenTelemetry's messages.
"""

import importlib
import importlib.metadata
import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgpack
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.transport.TTransport import TMemoryBuffer

# The rest of that package needs an old OpenTelemetry and can't be imported, unlike the generated modules.
_PACKAGE = "opentelemetry-exporter-jaeger-thrift"
sys.path.append(str(importlib.metadata.distribution(_PACKAGE).locate_file("opentelemetry/exporter/jaeger/thrift/gen")))
Agent = importlib.import_module("agent.Agent")
Batch = importlib.import_module("jaeger.ttypes").Batch


@dataclass(frozen=True)
class EnvoyRequestHead:
    """A span as parsed by its back-end; ids are numbers, the `parent` of a root is 0."""

    service: str
    name: str
    trace: int
    id: int
    parent: int
    kind: str
    is_error: bool
    tags: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReceivedSpan:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class TraceBackend:
    """An HTTP server that responds with `status`, or not at all while `is_slow` is set."""

    def __init__(self, status: int = 200):
        self.status = status
        self.is_slow = threading.Event()
        self.go_on = threading.Event()
        self.received: list[ReceivedSpan] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if backend.is_slow.is_set():
                    backend.go_on.wait(60)
                backend.received.append(
                    ReceivedSpan(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                )
                self.send_response(backend.status)
                self.send_header("Content-Length", "0")
                if 300 <= backend.status < 400:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_PUT = do_POST

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def over_tls(self, context: ssl.SSLContext) -> None:
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def spans(self) -> list[EnvoyRequestHead]:
        return [span for taken in list(self.received) for span in READERS[taken.headers["content-type"]](taken.body)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()


class TraceAgent:
    """A UDP socket that parses spans as Jaeger's agent does."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.port: int = self._socket.getsockname()[1]
        self._spans: list[EnvoyRequestHead] = []

    def spans(self) -> list[EnvoyRequestHead]:
        try:
            while True:
                self._spans += read_datagram(self._socket.recv(65_536))
        except TimeoutError:
            return list(self._spans)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def until(
    spans: Callable[[], list[EnvoyRequestHead]], found: Callable[[list[EnvoyRequestHead]], bool], seconds: float = 30
) -> list[EnvoyRequestHead]:
    """Return the received spans as soon as there are enough."""
    deadline = time.monotonic() + seconds
    while not found(received := spans()):
        assert time.monotonic() < deadline, f"the back-end received only {[(span.name, span.tags) for span in received]}"
        time.sleep(0.05)
    return received


def read_zipkin(spans: list[dict[str, Any]]) -> list[EnvoyRequestHead]:
    """Parse spans by https://zipkin.io/zipkin-api/: ids are hexadecimal, times in microseconds, tags are strings."""
    found = []
    for span in spans:
        assert isinstance(span["timestamp"], int)
        assert span["duration"] >= 1
        assert all(isinstance(value, str) for value in span["tags"].values())
        ids = (int(span["traceId"], 16), int(span["id"], 16), int(span.get("parentId", "0"), 16))
        kind = span.get("kind", "INTERNAL").lower()
        found.append(
            EnvoyRequestHead(span["localEndpoint"]["serviceName"], span["name"], *ids, kind, "error" in span["tags"], span["tags"])
        )
    return found


def read_datadog(body: bytes) -> list[EnvoyRequestHead]:
    """Parse spans of the Datadog agent's v0.4: lists of lists of maps, 64-bit ids, strings in `meta` and numbers in `metrics`."""
    spans = []
    for trace in msgpack.unpackb(body):
        assert len({span["trace_id"] for span in trace}) == 1
        for span in trace:
            assert all(isinstance(value, str) for value in span["meta"].values())
            assert all(isinstance(value, float | int) for value in span["metrics"].values())
            assert 0 < span["trace_id"] < 1 << 64
            assert span["duration"] >= 0
            trace_id = int(span["meta"]["_dd.p.tid"], 16) << 64 | span["trace_id"]
            tags = {**span["meta"], **span["metrics"]}
            kind = span["meta"]["span.kind"]
            spans.append(
                EnvoyRequestHead(
                    span["service"], span["resource"], trace_id, span["span_id"], span["parent_id"], kind, bool(span["error"]), tags
                )
            )
    return spans


def read_thrift(body: bytes) -> list[EnvoyRequestHead]:
    batch = Batch()
    batch.read(TBinaryProtocol(TMemoryBuffer(body)))
    return _read_batch(batch)


def read_datagram(datagram: bytes) -> list[EnvoyRequestHead]:
    protocol = TCompactProtocol(TMemoryBuffer(datagram))
    name, _, _ = protocol.readMessageBegin()
    assert name == "emitBatch"
    arguments = Agent.emitBatch_args()
    arguments.read(protocol)
    return _read_batch(arguments.batch)


def _read_batch(batch: Any) -> list[EnvoyRequestHead]:
    batch.validate()
    spans = []
    for span in batch.spans:
        tags = {tag.key: {0: tag.vStr, 1: tag.vDouble, 2: tag.vBool, 3: tag.vLong}[tag.vType] for tag in span.tags}
        assert span.flags == 1
        ids = (_unsigned(span.traceIdHigh) << 64 | _unsigned(span.traceIdLow), _unsigned(span.spanId), _unsigned(span.parentSpanId))
        kind = tags.pop("span.kind", "internal")
        spans.append(EnvoyRequestHead(batch.process.serviceName, span.operationName, *ids, kind, tags.get("error", False), tags))
    return spans


def _unsigned(value: int) -> int:
    return value & (1 << 64) - 1


def read_otlp(document: dict[str, Any]) -> list[EnvoyRequestHead]:
    """Parse the JSON of OTLP/HTTP: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding."""
    spans = []
    for resource in document["resourceSpans"]:
        service = _values(resource["resource"]["attributes"])["service.name"]
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            ids = tuple(int(span.get(name) or "0", 16) for name in ("traceId", "spanId", "parentSpanId"))
            kind = {1: "internal", 2: "server", 3: "client"}[span["kind"]]
            is_error = span.get("status", {}).get("code") == 2
            spans.append(EnvoyRequestHead(service, span["name"], *ids, kind, is_error, _values(span.get("attributes", []))))
    return spans


def _values(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Convert attribute values; 64-bit numbers are strings there."""
    return {pair["key"]: int(pair["value"]["intValue"]) if "intValue" in pair["value"] else _only(pair["value"]) for pair in attributes}


def _only(value: dict[str, Any]) -> Any:
    (found,) = value.values()
    return found


def read_json(body: bytes) -> list[EnvoyRequestHead]:
    document = json.loads(body)
    return read_zipkin(document) if isinstance(document, list) else read_otlp(document)


READERS: dict[str, Callable[[bytes], list[EnvoyRequestHead]]] = {
    "application/json": read_json,
    "application/msgpack": read_datadog,
    "application/x-thrift": read_thrift,
}
