"""Encoding of spans for Jaeger's Thrift receivers (jaeger-idl, thrift/jaeger.thrift and agent.thrift).

A collector receives a `Batch` in the binary protocol by POST. An agent receives datagrams, each an `emitBatch` in the compact protocol.
"""

from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from foundation.telemetry.tracing.trace_context import span_context

MEDIA_TYPE = "application/x-thrift"
MAX_DATAGRAM_BYTES = 65_000  # the maximum that the agent reads
SAMPLED = 1
TEXT, BOOL, LONG = 0, 2, 3  # TagType
FOLLOWS_FROM = 1  # SpanRefType

Spans = Sequence[ReadableSpan]
Write = Callable[[Any], None]


def encode_batch(spans: Spans, service: str) -> bytes:
    buffer = TMemoryBuffer()
    _write_batch(TBinaryProtocol(buffer), spans, service)
    return bytes(buffer.getvalue())


def encode_datagrams(spans: Spans, service: str) -> list[bytes]:
    """Encode spans into as few datagrams as their size allows; a span that exceeds one is dropped."""
    buffer = TMemoryBuffer()
    protocol = TCompactProtocol(buffer)
    protocol.writeMessageBegin("emitBatch", TMessageType.ONEWAY, 0)
    _write_struct(protocol, "emitBatch_args", (1, TType.STRUCT, lambda to: _write_batch(to, spans, service)))
    protocol.writeMessageEnd()
    encoded = bytes(buffer.getvalue())
    if len(encoded) <= MAX_DATAGRAM_BYTES:
        return [encoded]
    half = len(spans) // 2
    return [] if not half else [*encode_datagrams(spans[:half], service), *encode_datagrams(spans[half:], service)]


def _write_batch(to: Any, spans: Spans, service: str) -> None:
    process: Write = lambda to: _write_struct(to, "Process", (1, TType.STRING, lambda to: to.writeString(service)))  # noqa: E731
    _write_struct(to, "Batch", (1, TType.STRUCT, process), (2, TType.LIST, _list_writer(spans, _write_span)))


def _write_span(to: Any, span: ReadableSpan) -> None:
    ids, start, end = span_context(span), span.start_time or 0, span.end_time or 0
    tags: list[tuple[str, object]] = list((span.attributes or {}).items())
    if span.kind is not SpanKind.INTERNAL:
        tags.append(("span.kind", span.kind.name.lower()))
    if span.status.status_code is StatusCode.ERROR:
        tags.append(("error", True))
    _write_struct(
        to,
        "Span",
        (1, TType.I64, _int64_writer(ids.trace_id)),
        (2, TType.I64, _int64_writer(ids.trace_id >> 64)),
        (3, TType.I64, _int64_writer(ids.span_id)),
        (4, TType.I64, _int64_writer(0 if span.parent is None else span.parent.span_id)),
        (5, TType.STRING, lambda to: to.writeString(span.name)),
        *([(6, TType.LIST, _list_writer(span.links, _write_reference))] if span.links else []),
        (7, TType.I32, lambda to: to.writeI32(SAMPLED)),
        (8, TType.I64, _int64_writer(start // 1000)),  # microseconds
        (9, TType.I64, _int64_writer((end - start) // 1000)),
        (10, TType.LIST, _list_writer(tags, _write_tag)),
    )


def _write_tag(to: Any, tag: tuple[str, object]) -> None:
    name, value = tag
    field: tuple[int, int, Write]
    if isinstance(value, bool):
        kind, field = BOOL, (5, TType.BOOL, lambda to: to.writeBool(value))
    elif isinstance(value, int):
        kind, field = LONG, (6, TType.I64, _int64_writer(value))
    else:
        kind, field = TEXT, (3, TType.STRING, lambda to: to.writeString(str(value)))
    _write_struct(to, "Tag", (1, TType.STRING, lambda to: to.writeString(name)), (2, TType.I32, lambda to: to.writeI32(kind)), field)


def _write_reference(to: Any, link: Any) -> None:
    other = link.context
    _write_struct(
        to,
        "SpanRef",
        (1, TType.I32, lambda to: to.writeI32(FOLLOWS_FROM)),
        (2, TType.I64, _int64_writer(other.trace_id)),
        (3, TType.I64, _int64_writer(other.trace_id >> 64)),
        (4, TType.I64, _int64_writer(other.span_id)),
    )


def _write_struct(to: Any, name: str, *fields: tuple[int, int, Write]) -> None:
    to.writeStructBegin(name)
    for number, kind, write in fields:
        to.writeFieldBegin("", kind, number)
        write(to)
        to.writeFieldEnd()
    to.writeFieldStop()
    to.writeStructEnd()


def _list_writer(items: Sequence[Any], write: Callable[[Any, Any], None]) -> Write:
    def write_all(to: Any) -> None:
        to.writeListBegin(TType.STRUCT, len(items))
        for item in items:
            write(to, item)
        to.writeListEnd()

    return write_all


def _int64_writer(value: int) -> Write:
    """Return a writer of the lower 64 bits as a signed Thrift integer."""
    low = value & (1 << 64) - 1
    return lambda to: to.writeI64(low - (1 << 64) if low >> 63 else low)
