import pytest

from proxy.autocert.order_backoff import MAX_RETRY_AFTER, MINUTE, BackoffState

NOW = 1_800_000_000.0


def test_pauses_grow_to_six_hours():
    attempt, pauses = BackoffState(), []
    for _ in range(10):
        attempt = attempt.after_failure(NOW, "no", None)
        pauses.append((attempt.not_before - NOW) / MINUTE)
    assert pauses == [1, 5, 15, 30, 60, 120, 240, 360, 360, 360]


def test_no_host_fails_more_than_five_times_an_hour():
    attempt, now, times = BackoffState(), NOW, []
    while now < NOW + 24 * 60 * MINUTE:
        times.append(now)
        attempt = attempt.after_failure(now, "no", None)
        now = attempt.not_before
    assert max(sum(begin <= other < begin + 60 * MINUTE for other in times) for begin in times) <= 5


def test_retry_after_makes_a_pause_longer_but_never_shorter():
    assert BackoffState().after_failure(NOW, "no", 3600).not_before == NOW + 3600
    assert BackoffState().after_failure(NOW, "no", 1).not_before == NOW + MINUTE
    assert BackoffState().after_failure(NOW, "no", 1e12).not_before == NOW + MAX_RETRY_AFTER


def test_is_due_after_the_pause():
    attempt = BackoffState().after_failure(NOW, "no", None)
    assert not attempt.is_due(NOW + 59)
    assert attempt.is_due(NOW + 60)


def test_clock_skew_does_not_delay_for_years():
    assert BackoffState().after_failure(NOW + 10 * 365 * 86400, "no", None).is_due(NOW)


def test_json_round_trip():
    attempt = BackoffState(last_challenge_type="http-01").after_failure(NOW, "no", None)
    assert BackoffState.from_json(attempt.to_json()) == attempt


@pytest.mark.parametrize("value", [None, [], "x", {}, {"failures": "1", "not_before": 1}, {"failures": 1, "not_before": None}])
def test_malformed_state_is_the_initial_state(value):
    assert BackoffState.from_json(value) == BackoffState()


def test_ignores_unknown_challenge_type():
    assert BackoffState.from_json({"failures": -3, "not_before": 1, "worked": "dns-01"}) == BackoffState(not_before=1)


def test_challenges_take_turns_after_failures():
    attempt, kinds = BackoffState(), []
    for _ in range(3):
        kinds.append(attempt.challenge(has_http=True))
        attempt = attempt.after_failure(NOW, "no", None)
    assert kinds == ["tls-alpn-01", "http-01", "tls-alpn-01"]
    assert BackoffState(last_challenge_type="http-01").challenge(has_http=True) == "http-01"
    assert BackoffState(last_challenge_type="http-01").challenge(has_http=False) == "tls-alpn-01"
    assert BackoffState(failures=1).challenge(has_http=False) == "tls-alpn-01"
