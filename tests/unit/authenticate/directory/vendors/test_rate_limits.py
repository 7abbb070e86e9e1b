"""Delay before a retry: as long as the vendor requests, in each format that a vendor uses."""

from email.utils import formatdate

import pytest

from authenticate.directory.vendors.rate_limits import MAX_BACKOFF, is_limited, retry_delay
from authenticate.provider.provider_http import ProviderResponse

NOW = 1_800_000_000.0


def answer(status: int, **headers: str) -> ProviderResponse:
    return ProviderResponse(status, "", b"", {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize(
    ("response", "seconds"),
    [
        (answer(429, retry_after="7"), 7),
        (answer(503, retry_after="7"), 7),
        (answer(429, retry_after=formatdate(NOW + 30, usegmt=True)), 30),
        (answer(429, retry_after=formatdate(NOW - 30, usegmt=True)), 0),
        (answer(429, x_rate_limit_reset=str(int(NOW) + 20)), 20),
        (answer(429, x_rate_limit_reset=str(int(NOW) + 20), date=formatdate(NOW + 5, usegmt=True)), 15),
        (answer(403, x_ratelimit_remaining="0", x_ratelimit_reset=str(int(NOW) + 40)), 40),
        (answer(429, ratelimit_reset=str(int(NOW) + 3)), 3),
        (answer(429, x_ratelimit_reset="12"), 12),
        (answer(429, retry_after="9", x_rate_limit_reset=str(int(NOW) + 20)), 9),
    ],
)
def test_response_contents(response: ProviderResponse, seconds: float) -> None:
    assert retry_delay(response, 0, NOW, 0.0) == seconds
    assert retry_delay(response, 3, NOW, 0.5) == seconds + 0.5


@pytest.mark.parametrize(
    "response", [None, answer(500), answer(429), answer(429, retry_after="soon"), answer(429, x_rate_limit_reset="-1")]
)
def test_without_a_word_longer_each_time(response: ProviderResponse | None) -> None:
    assert [retry_delay(response, attempt, NOW, 1.0) for attempt in range(4)] == [1, 2, 4, 8]
    assert retry_delay(response, 30, NOW, 1.0) == MAX_BACKOFF
    assert retry_delay(response, 1, NOW, 0.0) == 1.0


def test_recognized_limits() -> None:
    assert is_limited(answer(429))
    assert is_limited(answer(403, retry_after="1"))
    assert is_limited(answer(403, x_ratelimit_remaining="0"))
    assert not is_limited(answer(403, x_ratelimit_remaining="12"))
    assert not is_limited(answer(403))
    assert not is_limited(answer(500))
