"""Clock skew is reported once, again after a while, and when it ends."""

import pytest
from structlog.testing import capture_logs

from databroker.clock_skew import AGAIN_AFTER, BORNE, ClockWatch
from foundation.telemetry import metrics

DIFFERS = "clock skew exceeds limit"
AGREES = "clock skew resolved"


def said(watch: ClockWatch, *skews: float) -> list[tuple[str, float]]:
    with capture_logs() as lines:
        for skew in skews:
            watch.tell(skew)
    return [(line["event"], line.get("seconds_ahead", 0.0)) for line in lines]


@pytest.mark.parametrize("skew", [BORNE + 1, -BORNE - 1, 86_400.04])
def test_a_clock_that_is_ahead_or_behind_is_told_and_measured(skew: float) -> None:
    watch = ClockWatch()
    assert said(watch, 0.3, skew, skew) == [(DIFFERS, round(skew, 1))]
    assert metrics.clock_skew._value.get() == skew
    assert said(watch, *[skew] * AGAIN_AFTER) == [(DIFFERS, round(skew, 1))]
    assert said(watch, 0.3, 0.3) == [(AGREES, 0.0)]


def test_what_questions_take_is_no_difference() -> None:
    assert said(ClockWatch(), BORNE, -BORNE, 0.0) == []
