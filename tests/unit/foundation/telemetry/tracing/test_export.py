"""Spans reach their backend; a failing one delays no request and logs one line."""

from itertools import pairwise

import structlog
from opentelemetry.sdk.trace.export import SpanExportResult

from foundation.telemetry.metrics import registry
from foundation.telemetry.tracing.export import MAX_BACKOFF, Exporter, exporter
from foundation.values import HostPort, Url
from tests.support.certs import certificate_files
from tests.support.trace_backend import TraceAgent, TraceBackend, until

SUCCESS, FAILURE = SpanExportResult.SUCCESS, SpanExportResult.FAILURE


def one(record_spans):
    made = record_spans()
    with made.tracer.start_root("GET", [], is_trusted=False):
        pass
    return made.ended()


def test_every_back_end_is_sent_its_own_format(record_spans) -> None:
    spans = one(record_spans)
    with TraceBackend() as backend, TraceAgent() as agent:
        url = Url("http", "127.0.0.1", backend.port, "/api/v2/spans", "key=1")
        for back_end, target in (("span", url), ("otlp", url), ("thrift", url), ("monitor", HostPort("127.0.0.1", backend.port))):
            assert exporter(back_end, target, "gate", None).export(spans) is SUCCESS
        assert exporter("thrift", HostPort("127.0.0.1", agent.port), "gate", None).export(spans) is SUCCESS
        received = [*backend.spans(), *until(agent.spans, bool)]
    assert [(each.service, each.name, each.trace) for each in received] == [("gate", "GET", spans[0].get_span_context().trace_id)] * 5
    assert [(each.method, each.path) for each in backend.received] == [
        *[("POST", "/api/v2/spans?key=1")] * 3,
        ("PUT", "/v0.4/traces"),
    ]


def test_failing_back_end_is_reported_once_and_retried_with_backoff(record_spans) -> None:
    spans, now, tries = one(record_spans), [0.0], []

    def send(spans) -> None:
        tries.append(now[0])
        if len(tries) < 12:
            raise OSError("a secret")

    dropped = registry.get_sample_value("gate_trace_spans_dropped_total") or 0
    sender = Exporter(send, "http://a/", clock=lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        while len(tries) < 12:
            result = sender.export(spans)
            now[0] += 0.5
    assert result is SUCCESS
    assert [line["event"] for line in lines] == ["trace export failed", "trace export recovered"]
    assert lines[0]["problem"] == "OSError"
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert gaps[:3] == [1, 2, 4]
    assert gaps[-1] == MAX_BACKOFF
    assert registry.get_sample_value("gate_trace_spans_dropped_total") - dropped > 11


def test_an_answer_that_is_no_success_is_a_failure_and_no_redirect_is_followed(record_spans) -> None:
    spans = one(record_spans)
    for status in (307, 404, 503):
        with TraceBackend(status) as backend, structlog.testing.capture_logs() as lines:
            target = Url("http", "127.0.0.1", backend.port, "/spans", "key=secret")
            assert exporter("span", target, "gate", None).export(spans) is FAILURE
            assert len(backend.received) == 1
        assert (lines[0]["problem"], lines[0]["target"]) == (
            f"the response has status {status}",
            f"http://127.0.0.1:{backend.port}/spans",
        )


def test_missing_back_end_is_a_failure_without_error(record_spans) -> None:
    spans = one(record_spans)
    with structlog.testing.capture_logs() as lines:
        assert exporter("span", Url("http", "127.0.0.1", 9, "/"), "gate", None).export(spans) is FAILURE
        assert exporter("thrift", HostPort("nowhere.invalid", 6831), "gate", None).export(spans) is FAILURE
    assert len(lines) == 2


def test_collector_with_untrusted_certificate_is_sent_nothing(record_spans, tmp_path) -> None:
    files = certificate_files(tmp_path, "localhost")
    spans = one(record_spans)
    with TraceBackend() as backend:
        backend.over_tls(files.server_context())
        target = Url("https", "localhost", backend.port, "/")
        assert exporter("span", target, "gate", None).export(spans) is FAILURE
        assert not backend.received
        assert exporter("span", target, "gate", files.authority.read_bytes()).export(spans) is SUCCESS
    assert backend.spans()[0].name == "GET"
