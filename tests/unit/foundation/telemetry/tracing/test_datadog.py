"""The Datadog agent's MessagePack."""

import msgpack

from foundation.telemetry.tracing import datadog
from foundation.telemetry.tracing.spans import CLIENT, span
from tests.support.trace_backend import read_datadog


def test_spans_are_written_as_the_agent_reads_them(record_spans) -> None:
    made = record_spans(tracing_provider="datadog")
    for _ in range(2):
        with made.tracer.start_root("GET", [], is_trusted=False) as root:
            root.set_attributes({"http.response.status_code": 200, "gate.outcome": "allowed", "gate.bytes_sent": 7})
            with span("upstream", CLIENT) as upstream:
                upstream.set_error("timed out")
    body = datadog.encode(made.ended(), "gate")
    assert len(msgpack.unpackb(body)) == 2
    assert datadog.request_headers(made.spans)["X-Datadog-Trace-Count"] == "2"
    below, above, *_ = read_datadog(body)
    assert (above.service, above.name, above.kind, above.parent, above.is_error) == ("gate", "GET", "server", 0, False)
    assert above.tags["http.status_code"] == "200"
    assert above.tags["gate.bytes_sent"] == 7
    assert above.tags["_sampling_priority_v1"] == 1
    assert (below.parent, below.trace, below.kind, below.is_error) == (above.id, above.trace, "client", True)
    assert "_sampling_priority_v1" not in below.tags
    assert above.trace >> 64, "the upper half of the trace's id goes along"
