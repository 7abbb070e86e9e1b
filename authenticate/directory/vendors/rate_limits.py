"""Retry delays: what the response's Retry-After or rate-limit headers say, else exponential backoff."""

from collections.abc import Mapping

from authenticate.provider.provider_http import ProviderResponse
from foundation.backoff import backoff_delay, retry_after, seconds_until

TOO_MANY = 429
# The server's trouble, not ours: it may be over in a moment.
PASSING = frozenset({408, 500, 502, 503, 504})
# Okta; GitHub, Auth0, OneLogin; GitLab.
RESET_HEADERS = ("x-rate-limit-reset", "x-ratelimit-reset", "ratelimit-reset")
REMAINING_HEADERS = ("x-rate-limit-remaining", "x-ratelimit-remaining", "ratelimit-remaining")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
_YEAR_2001 = 1e9


def is_limited(answer: ProviderResponse) -> bool:
    """Rate-limited: status 429, or GitHub's 403 with the headers that say so."""
    if answer.status == TOO_MANY:
        return True
    return answer.status == 403 and ("retry-after" in answer.headers or _first(answer.headers, REMAINING_HEADERS) == "0")


def pause(answer: ProviderResponse | None, attempt: int, now: float, jitter: float) -> float:
    """Seconds until the next try; `now` is Unix time, `attempt` counts from 0, `jitter` is from 0 to 1.  None stands for no response at
    all.
    """
    backoff = backoff_delay(attempt, FIRST_PAUSE, LONGEST_PAUSE, jitter=jitter)
    if answer is None:
        return backoff
    asked = retry_after(answer.headers.get("retry-after", "").strip(), now)
    if asked is None and is_limited(answer):
        asked = _until_reset(answer.headers, now)
    # A little later than said, so that many who were told the same do not come at once.
    return backoff if asked is None else max(asked, 0.0) + jitter


def _until_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the rate limit resets: a Unix time by most, seconds by OneLogin.  The server's own clock counts, where it tells it."""
    written = _first(headers, RESET_HEADERS)
    if not (written.isascii() and written.isdigit()):
        return None
    value = float(written[:12])
    if value < _YEAR_2001:
        return value
    ahead = seconds_until(headers.get("date", ""), now) or 0.0
    return value - now - ahead


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name].strip() for name in names if name in headers), "")
