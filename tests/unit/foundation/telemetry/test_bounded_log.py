"""Strangers write so many lines a second, and what is left out is counted."""

import structlog

from foundation.telemetry.bounded_log import MAX_LINES, SUPPRESSED, BoundedLog


def test_lines_beyond_the_bound_are_counted_in_the_next_second() -> None:
    now = 100.0
    bounded = BoundedLog("a request was refused", clock=lambda: now)
    with structlog.testing.capture_logs() as lines:
        for number in range(MAX_LINES + 7):
            bounded.tell(number=number)
        now += 0.9
        bounded.tell(number=-1)
        assert [line["number"] for line in lines] == list(range(MAX_LINES))
        now += 0.2
        bounded.tell(number=50)
        now += 2.0
        bounded.tell(number=51)
    assert {line["log_level"] for line in lines} == {"warning"}
    told = [(line["event"], line.get("number"), line.get("lines")) for line in lines[MAX_LINES:]]
    assert told == [(SUPPRESSED, None, 8), ("a request was refused", 50, None), ("a request was refused", 51, None)]
