import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.routes.upstreams.upstream_health import OutlierDetection
from proxy.upstreams.outliers import OutlierDetector, OutlierState


def detector(**settings):
    return OutlierDetector(OutlierDetection.model_validate(settings), random.Random(1))


def outliers(count):
    return [OutlierState() for _ in range(count)]


def feed(detector, upstreams, index, *statuses, now=0.0):
    return [each for status in statuses for each in detector.record_response(upstreams, index, status, now)]


def test_five_consecutive_errors_eject_upstream():
    detection, three = detector(), outliers(3)
    assert feed(detection, three, 0, 500, 500, 500, 500) == []
    assert feed(detection, three, 0, 200, 500, 500, 500, 500) == []
    assert feed(detection, three, 0, 500) == [(0, "consecutive 5xx")]
    assert [each.is_ejected(29.9) for each in three] == [True, False, False]
    assert not three[0].is_ejected(30.0)


@pytest.mark.parametrize("status", [200, 302, 404, 429, 499])
def test_client_errors_do_not_count(status):
    assert feed(detector(consecutive_5xx=1), outliers(2), 0, *[status] * 9) == []


def test_gateway_failures_eject_only_if_enforced():
    assert feed(detector(consecutive_5xx=9, consecutive_gateway_failure=2), outliers(2), 0, 502, 503, 504) == []
    strict = {"consecutive_5xx": 9, "consecutive_gateway_failure": 2, "enforcing_consecutive_gateway_failure": 100}
    assert feed(detector(**strict), outliers(2), 0, 502, 500, 503, 504) == [(0, "consecutive gateway failures")]


def test_ejection_time_increases_up_to_a_maximum():
    detection, two = detector(consecutive_5xx=1, base_ejection_time="10s", max_ejection_time="25s"), outliers(2)
    lengths, now = [], 0.0
    for _ in range(4):
        assert feed(detection, two, 0, 500, now=now)
        lengths.append(two[0].ejected_until - now)
        now = two[0].ejected_until
        detection._interval_started_at = now  # no interval without an ejection lies between
    assert lengths == [10.0, 20.0, 25.0, 25.0]


def test_interval_without_ejection_reduces_ejection_count():
    detection, two = detector(consecutive_5xx=1, base_ejection_time="10s", interval="10s"), outliers(2)
    feed(detection, two, 0, 500, now=0.0)
    feed(detection, two, 0, 200, now=20.0)
    feed(detection, two, 0, 500, now=25.0)
    assert two[0].ejected_until == 35.0


@given(st.integers(2, 20), st.integers(0, 100))
def test_max_ejection_percent_always_allows_one(count, percent):
    detection, upstreams = detector(consecutive_5xx=1, max_ejection_percent=percent), outliers(count)
    for index in range(count):
        feed(detection, upstreams, index, 500)
    out = sum(each.is_ejected(0.0) for each in upstreams)
    assert out == max(1, count * percent // 100)


def test_nothing_is_enforced_at_0_percent():
    assert feed(detector(consecutive_5xx=1, enforcing_consecutive_5xx=0), outliers(2), 0, *[500] * 9) == []


def feed_all(detection, upstreams, failures, *, of, now):
    for index, failed in enumerate(failures):
        feed(detection, upstreams, index, *[500, 200] * failed, *[200] * (of - 2 * failed), now=now)


def test_low_success_rate_ejects_upstream():
    detection, six = detector(success_rate_minimum_hosts=5), outliers(6)
    feed_all(detection, six, [30, 1, 0, 2, 1, 0], of=100, now=0.0)
    assert feed(detection, six, 1, 200, now=10.0) == [(0, "low success rate")]
    assert all(each.requests <= 1 for each in six)


def test_rates_of_few_requests_or_few_upstreams_are_not_compared():
    detection, six = detector(), outliers(6)
    feed_all(detection, six, [30, 1, 0, 2, 1, 0], of=98, now=0.0)
    assert feed(detection, six, 1, 200, now=10.0) == []
    detection, four = detector(), outliers(4)
    feed_all(detection, four, [30, 1, 0, 2], of=100, now=0.0)
    assert feed(detection, four, 1, 200, now=10.0) == []


def test_failure_percentage_ejects_upstream_if_enforced():
    settings = {"enforcing_failure_percentage": 100, "failure_percentage_threshold": 40, "enforcing_success_rate": 0}
    detection, six = detector(**settings), outliers(6)
    feed_all(detection, six, [25, 1, 0, 2, 1, 0], of=60, now=0.0)
    assert feed(detection, six, 1, 200, now=10.0) == [(0, "failures")]
