"""Zipkin's JSON."""

import json

from foundation.telemetry.tracing import zipkin
from foundation.telemetry.tracing.spans import CLIENT, span
from tests.support.trace_backend import read_json


def test_spans_are_written_as_zipkin_reads_them(record_spans) -> None:
    made = record_spans()
    with made.tracer.start_root("GET", [], is_trusted=False) as root:
        root.set_attributes({"http.response.status_code": 200, "yes": True})
        with span("upstream", CLIENT, {"server.address": "app.internal"}) as upstream:
            upstream.set_error("timed out")
    body = zipkin.encode(made.ended(), "gate")
    below, above = read_json(body)
    assert (above.service, above.name, above.kind, above.parent, above.is_error) == ("gate", "GET", "server", 0, False)
    assert above.tags == {"http.response.status_code": "200", "yes": "true"}
    assert (below.kind, below.parent, below.trace, below.is_error) == ("client", above.id, above.trace, True)
    assert json.loads(body)[0]["remoteEndpoint"] == {"serviceName": "app.internal"}
