"""Sampling, and the trace that a request belongs to."""

import threading

import pytest

from foundation.telemetry.tracing import tracer
from foundation.telemetry.tracing.spans import NO_SPAN, current_span, span
from foundation.telemetry.tracing.tracer import MAX_REMOTE_PER_SECOND, Tracer
from tests.support.options import make_options

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
SAMPLED = [(b"traceparent", f"00-{TRACE:032x}-{SPAN:016x}-01".encode())]
NOT_SAMPLED = [(b"traceparent", f"00-{TRACE:032x}-{SPAN:016x}-00".encode())]


@pytest.mark.parametrize(("rate", "chance", "is_sampled"), [(0, 0.0, False), (0.25, 0.24, True), (0.25, 0.25, False), (1, 0.999, True)])
def test_chance_and_the_rate_decide(record_spans, rate: float, chance: float, is_sampled: bool) -> None:
    made = record_spans(tracing_sample_rate=rate)
    made.chance = chance
    assert (made.tracer.start_root("GET", [], is_trusted=False) is not None) is is_sampled


def test_a_stranger_decides_neither_that_a_request_is_traced_nor_where(record_spans) -> None:
    made = record_spans(tracing_sample_rate=0.1)
    assert made.tracer.start_root("GET", SAMPLED, is_trusted=False) is None
    made.chance = 0.01
    with made.tracer.start_root("GET", NOT_SAMPLED, is_trusted=False):
        pass
    (ended,) = made.ended()
    assert ended.get_span_context().trace_id != TRACE
    assert ended.parent is None
    assert [link.context.trace_id for link in ended.links] == [TRACE]


def test_trusted_client_decides_both(record_spans) -> None:
    made = record_spans(tracing_sample_rate=0.1)
    assert made.tracer.start_root("GET", NOT_SAMPLED, is_trusted=True) is None
    with made.tracer.start_root("GET", [*SAMPLED, (b"tracestate", b"a=1")], is_trusted=True) as traced:
        headers = dict(traced.with_trace_headers([(b"Host", b"a"), (b"TraceParent", b"other"), (b"X-B3-Sampled", b"0")]))
    (ended,) = made.ended()
    assert (ended.get_span_context().trace_id, ended.parent.span_id, ended.links) == (TRACE, SPAN, ())
    own = ended.get_span_context().span_id
    assert headers[b"traceparent"] == f"00-{TRACE:032x}-{own:016x}-01".encode()
    assert headers[b"tracestate"] == b"a=1"
    assert headers[b"x-b3-sampled"] == b"1"
    assert headers.keys() == {b"Host", b"traceparent", b"tracestate", b"x-b3-traceid", b"x-b3-spanid", b"x-b3-sampled"}
    assert made.draws == 0


def test_b3_counts_where_the_back_end_speaks_it(record_spans, tmp_path) -> None:
    headers = [(b"b3", f"{TRACE:032x}-{SPAN:016x}-1".encode())]
    never = {"tracing_sample_rate": 0}
    assert record_spans(**never).tracer.start_root("GET", headers, is_trusted=True) is not None
    assert record_spans(tracing_provider="otlp", **never).tracer.start_root("GET", headers, is_trusted=True) is None


def test_no_more_than_so_many_traces_a_second_are_joined(record_spans) -> None:
    made = record_spans(tracing_sample_rate=0)
    started = [made.tracer.start_root("GET", SAMPLED, is_trusted=True) for _ in range(MAX_REMOTE_PER_SECOND + 10)]
    assert sum(each is not None for each in started) == MAX_REMOTE_PER_SECOND
    made.now += 1
    assert made.tracer.start_root("GET", SAMPLED, is_trusted=True) is not None


def test_nothing_is_made_of_a_request_that_is_not_traced(record_spans, monkeypatch) -> None:
    made = record_spans(tracing_sample_rate=0)
    monkeypatch.setattr(Tracer, "_start_span", None)
    assert made.tracer.start_root("GET", [], is_trusted=False) is None
    assert span("authorize") is NO_SPAN
    assert not current_span()


def test_a_call_that_names_no_span_begins_none(record_spans) -> None:
    made = record_spans()
    assert made.tracer.start_remote("Check", "") is None
    with made.tracer.start_remote("Check", f"00-{TRACE:032x}-{SPAN:016x}-01"):
        pass
    assert made.ended()[0].parent.span_id == SPAN


def test_spans_name_their_user(record_spans) -> None:
    made = record_spans()
    with made.tracer.start_root("GET", [], is_trusted=False):
        pass
    assert made.ended()[0].resource.attributes == {"service.name": "gate"}


def test_a_reload_keeps_the_tracer_where_its_settings_are_the_same(tmp_path) -> None:
    settings = {"tracing_provider": "jaeger", "tracing_thrift_agent_endpoint": "localhost:6831"}
    first = Tracer.from_options(make_options(tmp_path, **settings))
    assert Tracer.from_options(make_options(tmp_path, **settings, cookie_name="other"), first) is first
    assert Tracer.from_options(make_options(tmp_path, **settings, tracing_sample_rate=1), first) is not first
    assert Tracer.from_options(make_options(tmp_path), first) is None


def test_active_tracer_is_replaced_and_then_flushed(record_spans) -> None:
    first, second = record_spans(), record_spans()
    try:
        tracer.set_tracer(first.tracer)
        with first.tracer.start_root("GET", [], is_trusted=False):
            tracer.set_tracer(second.tracer)
            assert tracer.current_tracer() is second.tracer
        with first.tracer.start_root("last", [], is_trusted=False):
            pass
    finally:
        tracer.set_tracer(None)
    for thread in threading.enumerate():
        if thread.name == "replaced tracer":
            thread.join(10)
    assert tracer.current_tracer() is None
