"""Jaeger's Thrift in both protocols, read by code that the Thrift compiler generates from Jaeger's definitions."""

import pytest

from foundation.telemetry.tracing import jaeger
from foundation.telemetry.tracing.spans import CLIENT, span
from tests.support.trace_backend import read_datagram, read_thrift

STRANGER = [(b"traceparent", b"00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01")]


def ended(record_spans, pieces: int = 1):
    made = record_spans(tracing_provider="jaeger", tracing_thrift_agent_endpoint="localhost:6831")
    with made.tracer.start_root("GET", STRANGER, is_trusted=False) as root:
        root.set_attributes({"http.response.status_code": 200, "gate.outcome": "allowed", "yes": True})
        for number in range(pieces):
            with span("upstream", CLIENT, {"path": "/ä" * 100, "number": number}) as upstream:
                upstream.set_error("timed out")
    return made.ended()


@pytest.mark.parametrize(
    ("write", "read"), [(jaeger.encode_batch, read_thrift), (lambda *of: jaeger.encode_datagrams(*of)[0], read_datagram)]
)
def test_spans_are_written_as_jaeger_reads_them(record_spans, write, read) -> None:
    below, above = read(write(ended(record_spans), "gate"))
    assert (above.service, above.name, above.kind, above.parent, above.is_error) == ("gate", "GET", "server", 0, False)
    assert above.tags == {"http.response.status_code": 200, "gate.outcome": "allowed", "yes": True}
    assert (below.parent, below.trace, below.kind, below.is_error) == (above.id, above.trace, "client", True)
    assert below.tags["path"] == "/ä" * 100


def test_batch_exceeding_a_datagram_is_split(record_spans) -> None:
    spans = ended(record_spans, pieces=400)
    written = jaeger.encode_datagrams(spans, "gate")
    assert len(written) > 1
    assert max(map(len, written)) <= jaeger.MAX_DATAGRAM_BYTES
    received = [each for datagram in written for each in read_datagram(datagram)]
    assert [each.id for each in received] == [each.get_span_context().span_id for each in spans]


def test_a_span_that_fits_into_none_is_left_out(record_spans, monkeypatch) -> None:
    spans = ended(record_spans)
    monkeypatch.setattr(jaeger, "MAX_DATAGRAM_BYTES", 300)
    (datagram,) = jaeger.encode_datagrams(spans, "gate")
    assert [each.name for each in read_datagram(datagram)] == ["GET"]
