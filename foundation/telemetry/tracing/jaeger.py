"""Spans as Jaeger's Thrift receivers take them (jaeger-idl, thrift/jaeger.thrift and agent.thrift).

A collector is posted a `Batch` in the binary protocol; an agent is sent datagrams, each an `emitBatch` in the compact protocol.
"""

from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from foundation.telemetry.tracing.trace_context import context_of

MEDIA_TYPE = "application/x-thrift"
LARGEST_DATAGRAM = 65_000  # bytes, which the agent reads at once
SAMPLED = 1
TEXT, BOOL, LONG = 0, 2, 3  # TagType
FOLLOWS_FROM = 1  # SpanRefType

Spans = Sequence[ReadableSpan]
Write = Callable[[Any], None]


def batch(spans: Spans, service: str) -> bytes:
    buffer = TMemoryBuffer()
    _batch(TBinaryProtocol(buffer), spans, service)
    return bytes(buffer.getvalue())


def datagrams(spans: Spans, service: str) -> list[bytes]:
    """Datagrams, as few as their size allows; a span that is too large alone is left out."""
    buffer = TMemoryBuffer()
    protocol = TCompactProtocol(buffer)
    protocol.writeMessageBegin("emitBatch", TMessageType.ONEWAY, 0)
    _struct(protocol, "emitBatch_args", (1, TType.STRUCT, lambda to: _batch(to, spans, service)))
    protocol.writeMessageEnd()
    written = bytes(buffer.getvalue())
    if len(written) <= LARGEST_DATAGRAM:
        return [written]
    half = len(spans) // 2
    return [] if not half else [*datagrams(spans[:half], service), *datagrams(spans[half:], service)]


def _batch(to: Any, spans: Spans, service: str) -> None:
    process: Write = lambda to: _struct(to, "Process", (1, TType.STRING, lambda to: to.writeString(service)))  # noqa: E731
    _struct(to, "Batch", (1, TType.STRUCT, process), (2, TType.LIST, _listed(spans, _span)))


def _span(to: Any, span: ReadableSpan) -> None:
    own, start, end = context_of(span), span.start_time or 0, span.end_time or 0
    tags: list[tuple[str, object]] = list((span.attributes or {}).items())
    if span.kind is not SpanKind.INTERNAL:
        tags.append(("span.kind", span.kind.name.lower()))
    if span.status.status_code is StatusCode.ERROR:
        tags.append(("error", True))
    _struct(
        to,
        "Span",
        (1, TType.I64, _number(own.trace_id)),
        (2, TType.I64, _number(own.trace_id >> 64)),
        (3, TType.I64, _number(own.span_id)),
        (4, TType.I64, _number(0 if span.parent is None else span.parent.span_id)),
        (5, TType.STRING, lambda to: to.writeString(span.name)),
        *([(6, TType.LIST, _listed(span.links, _reference))] if span.links else []),
        (7, TType.I32, lambda to: to.writeI32(SAMPLED)),
        (8, TType.I64, _number(start // 1000)),  # microseconds
        (9, TType.I64, _number((end - start) // 1000)),
        (10, TType.LIST, _listed(tags, _tag)),
    )


def _tag(to: Any, tag: tuple[str, object]) -> None:
    name, value = tag
    field: tuple[int, int, Write]
    if isinstance(value, bool):
        kind, field = BOOL, (5, TType.BOOL, lambda to: to.writeBool(value))
    elif isinstance(value, int):
        kind, field = LONG, (6, TType.I64, _number(value))
    else:
        kind, field = TEXT, (3, TType.STRING, lambda to: to.writeString(str(value)))
    _struct(to, "Tag", (1, TType.STRING, lambda to: to.writeString(name)), (2, TType.I32, lambda to: to.writeI32(kind)), field)


def _reference(to: Any, link: Any) -> None:
    other = link.context
    _struct(
        to,
        "SpanRef",
        (1, TType.I32, lambda to: to.writeI32(FOLLOWS_FROM)),
        (2, TType.I64, _number(other.trace_id)),
        (3, TType.I64, _number(other.trace_id >> 64)),
        (4, TType.I64, _number(other.span_id)),
    )


def _struct(to: Any, name: str, *fields: tuple[int, int, Write]) -> None:
    to.writeStructBegin(name)
    for number, kind, write in fields:
        to.writeFieldBegin("", kind, number)
        write(to)
        to.writeFieldEnd()
    to.writeFieldStop()
    to.writeStructEnd()


def _listed(items: Sequence[Any], write: Callable[[Any, Any], None]) -> Write:
    def write_all(to: Any) -> None:
        to.writeListBegin(TType.STRUCT, len(items))
        for item in items:
            write(to, item)
        to.writeListEnd()

    return write_all


def _number(value: int) -> Write:
    """The lower 64 bits, as Thrift's signed integer."""
    low = value & (1 << 64) - 1
    return lambda to: to.writeI64(low - (1 << 64) if low >> 63 else low)
