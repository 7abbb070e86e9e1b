"""Clock skew is reported once, again after a while, and when it ends."""

import pytest
from structlog.testing import capture_logs

from databroker.clock_skew import MAX_SKEW_SECONDS, POLLS_PER_LOG, ClockSkewMonitor
from foundation.telemetry import metrics

DIFFERS = "clock skew exceeds limit"
AGREES = "clock skew resolved"


def reported(watch: ClockSkewMonitor, *skews: float) -> list[tuple[str, float]]:
    with capture_logs() as lines:
        for skew in skews:
            watch.observe(skew)
    return [(line["event"], line.get("seconds_ahead", 0.0)) for line in lines]


@pytest.mark.parametrize("skew", [MAX_SKEW_SECONDS + 1, -MAX_SKEW_SECONDS - 1, 86_400.04])
def test_clock_skew_is_reported_and_measured(skew: float) -> None:
    watch = ClockSkewMonitor()
    assert reported(watch, 0.3, skew, skew) == [(DIFFERS, round(skew, 1))]
    assert metrics.clock_skew._value.get() == skew
    assert reported(watch, *[skew] * POLLS_PER_LOG) == [(DIFFERS, round(skew, 1))]
    assert reported(watch, 0.3, 0.3) == [(AGREES, 0.0)]


def test_query_time_is_no_difference() -> None:
    assert reported(ClockSkewMonitor(), MAX_SKEW_SECONDS, -MAX_SKEW_SECONDS, 0.0) == []
