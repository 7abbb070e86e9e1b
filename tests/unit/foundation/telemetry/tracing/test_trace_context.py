"""Parsing of trace context headers."""

import pytest

from foundation.telemetry.tracing.trace_context import ParentSpan, extract_parent, inject_headers

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
WRITTEN = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_traceparent_is_read() -> None:
    assert extract_parent([(b"traceparent", WRITTEN)]) == ParentSpan(TRACE, SPAN, is_sampled=True)
    assert extract_parent([(b"traceparent", WRITTEN[:-2] + b"00")]) == ParentSpan(TRACE, SPAN, is_sampled=False)


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert extract_parent([(b"traceparent", b"cc" + WRITTEN[2:] + b"-more")]) == ParentSpan(TRACE, SPAN, is_sampled=True)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"ff" + WRITTEN[2:],
        WRITTEN + b"-more",
        WRITTEN.upper(),
        WRITTEN + b"\n",
        b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-" + b"0" * 16 + b"-01",
        WRITTEN[:-1],
        b"x" * 100_000,
    ],
)
def test_malformed_traceparent_names_nothing(value: bytes) -> None:
    assert extract_parent([(b"traceparent", value)]) is None


def test_two_traceparents_name_nothing() -> None:
    assert extract_parent([(b"traceparent", WRITTEN), (b"traceparent", WRITTEN)]) is None


def test_tracestate_goes_along_unless_it_is_too_long() -> None:
    headers = [(b"traceparent", WRITTEN), (b"tracestate", b"a=1"), (b"tracestate", b"b=2")]
    found = extract_parent(headers)
    assert found is not None
    assert found.state == "a=1,b=2"
    assert extract_parent([(b"traceparent", WRITTEN), (b"tracestate", b"a=" + b"x" * 600)]) == ParentSpan(TRACE, SPAN, is_sampled=True)


def b3(**headers: str) -> ParentSpan | None:
    return extract_parent([(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()], b3_enabled=True)


TEXTS = {"x_b3_traceid": f"{TRACE:032x}", "x_b3_spanid": f"{SPAN:016x}"}


def test_b3_is_read_in_both_its_forms() -> None:
    assert b3(b3=f"{TRACE:032x}-{SPAN:016x}-1") == ParentSpan(TRACE, SPAN, is_sampled=True)
    assert b3(b3=f"{TRACE:032x}-{SPAN:016x}-d-{SPAN:016x}") == ParentSpan(TRACE, SPAN, is_sampled=True)
    assert b3(b3=f"{TRACE:032x}-{SPAN:016x}-0") == ParentSpan(TRACE, SPAN, is_sampled=False)
    assert b3(b3=f"{SPAN:016x}-{SPAN:016x}") == ParentSpan(SPAN, SPAN, is_sampled=None)
    assert b3(**TEXTS) == ParentSpan(TRACE, SPAN, is_sampled=None)
    assert b3(**TEXTS, x_b3_sampled="0") == ParentSpan(TRACE, SPAN, is_sampled=False)
    assert b3(**TEXTS, x_b3_flags="1") == ParentSpan(TRACE, SPAN, is_sampled=True)


def test_malformed_b3_names_nothing() -> None:
    assert b3(b3="0") is None
    assert b3(b3=f"{0:032x}-{SPAN:016x}-1") is None
    assert b3(x_b3_traceid=f"{TRACE:032x}") is None
    assert b3(**{**TEXTS, "x_b3_spanid": "nothing"}) is None


def test_b3_is_read_only_where_it_is_spoken() -> None:
    assert extract_parent([(b"b3", f"{TRACE:032x}-{SPAN:016x}-1".encode())]) is None


def test_upstream_receives_parsable_trace_headers() -> None:
    headers = inject_headers(TRACE, SPAN, "a=1", b3_enabled=True)
    assert extract_parent(headers) == ParentSpan(TRACE, SPAN, is_sampled=True, state="a=1")
    without = [(name, value) for name, value in headers if not name.startswith(b"trace")]
    assert extract_parent(without, b3_enabled=True) == ParentSpan(TRACE, SPAN, is_sampled=True)
    assert not [name for name, _ in inject_headers(TRACE, SPAN, "", b3_enabled=False) if name != b"traceparent"]
