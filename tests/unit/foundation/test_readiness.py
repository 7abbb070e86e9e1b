import json

import pytest

from foundation.readiness import ComponentStatus, HealthTracker, ReadinessReport, degraded, failing, format_utc

OK, SLOW, GONE = (
    ComponentStatus("config", reason="config.yaml, 12ab"),
    degraded("provider", "away\nsince noon"),
    failing("data broker", "no word"),
)


@pytest.mark.parametrize(
    ("parts", "status", "line"),
    [
        ((), 200, "ready"),
        ((OK,), 200, "ready"),
        ((OK, SLOW), 200, "ready; provider: degraded: away since noon"),
        ((OK, GONE), 503, "not ready; data broker: failing: no word"),
        ((SLOW, GONE), 503, "not ready; provider: degraded: away since noon; data broker: failing: no word"),
    ],
)
def test_only_a_part_that_fails_makes_it_not_ready(parts, status, line):
    report = ReadinessReport(parts)
    assert (report.status, report.is_ready, report.summary()) == (status, status == 200, line)


def test_text_has_one_line_for_each_part_with_any_reason():
    text = ReadinessReport((OK, SLOW, GONE)).as_text()
    assert text == "not ready\nconfig: ok: config.yaml, 12ab\nprovider: degraded: away since noon\ndata broker: failing: no word\n"


def test_json_names_each_part_with_its_state_and_reason():
    document = json.loads(ReadinessReport((OK, GONE)).as_json())
    assert document == {
        "ready": False,
        "components": {"config": {"state": "ok", "reason": "config.yaml, 12ab"}, "data broker": {"state": "failing", "reason": "no word"}},
    }


def test_health_reports_start_of_failure_and_last_success():
    now = [100.0]
    health = HealthTracker(lambda: now[0])
    assert (health.error, health.changed_at) == ("", 0.0)
    health.mark_down("away")
    now[0] = 200.0
    health.mark_down("still away")
    assert (health.error, health.changed_at) == ("still away", 100.0)
    health.mark_down("it began before", failed_at=50.0)
    assert health.changed_at == 50.0
    health.mark_up()
    assert (health.error, health.changed_at) == ("", 200.0)


def test_a_moment_is_utc_to_the_second():
    assert format_utc(1_800_000_000.9) == "2027-01-15T08:00:00Z"
