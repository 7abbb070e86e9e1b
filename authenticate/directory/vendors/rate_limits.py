"""Rate limits and retry delays: from the response's Retry-After or rate-limit headers, else exponential backoff."""

from collections.abc import Mapping

from authenticate.provider.provider_http import ProviderResponse
from foundation.backoff import backoff_delay, retry_after, seconds_until

TOO_MANY_REQUESTS = 429
# Server-side errors that may be temporary.
TRANSIENT = frozenset({408, 500, 502, 503, 504})
# Okta; GitHub, Auth0, OneLogin; GitLab.
RESET_HEADERS = ("x-rate-limit-reset", "x-ratelimit-reset", "ratelimit-reset")
REMAINING_HEADERS = ("x-rate-limit-remaining", "x-ratelimit-remaining", "ratelimit-remaining")
INITIAL_BACKOFF, MAX_BACKOFF = 1.0, 30.0
_YEAR_2001 = 1e9


def is_limited(answer: ProviderResponse) -> bool:
    """Return whether the response is rate-limited: status 429, or GitHub's 403 with rate-limit headers."""
    if answer.status == TOO_MANY_REQUESTS:
        return True
    return answer.status == 403 and ("retry-after" in answer.headers or _first(answer.headers, REMAINING_HEADERS) == "0")


def retry_delay(answer: ProviderResponse | None, attempt: int, now: float, jitter: float) -> float:
    """Return the seconds until the next attempt.

    `now` is Unix time, `attempt` counts from 0, `jitter` is between 0 and 1. The response is None if the request failed.
    """
    backoff = backoff_delay(attempt, INITIAL_BACKOFF, MAX_BACKOFF, jitter=jitter)
    if answer is None:
        return backoff
    requested = retry_after(answer.headers.get("retry-after", "").strip(), now)
    if requested is None and is_limited(answer):
        requested = _until_reset(answer.headers, now)
    # Later by the jitter, so that clients with the same delay do not retry simultaneously.
    return backoff if requested is None else max(requested, 0.0) + jitter


def _until_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the rate limit resets, by the server's clock if it sends a Date header.

    Most vendors send a Unix time, OneLogin sends seconds.
    """
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
