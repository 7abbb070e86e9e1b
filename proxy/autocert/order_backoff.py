"""Backoff of certificate requests after a failure, without I/O.

Let's Encrypt allows five failed validations of a host per hour, and the schedule makes at most five.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from proxy.listener.tls.acme_state import ChallengeType

MINUTE = 60.0
BACKOFF_SCHEDULE = tuple(minutes * MINUTE for minutes in (1, 5, 15, 30, 60, 120, 240, 360))
# After an error of the CA itself all hosts back off, but at most for this long, because the rate limit of one host can last days.
MAX_GLOBAL_BACKOFF = 15 * MINUTE
MAX_RETRY_AFTER = 14 * 24 * 60 * MINUTE
ACCOUNT = "*"


# enforcement-point: Services and certificates: ACME retry limits
@dataclass(frozen=True, slots=True)
class BackoffState:
    """Failed requests for a host since the last success; `not_before` is in Unix seconds.

    `last_challenge_type` is the type of the last successful challenge.
    """

    failures: int = 0
    not_before: float = 0.0
    reason: str = ""
    last_challenge_type: ChallengeType | None = None

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Parse a stored state; a malformed one counts as no failure."""
        if isinstance(value, Mapping) and isinstance(value.get("failures"), int) and isinstance(value.get("not_before"), int | float):
            last_type = value.get("worked")
            kind: ChallengeType | None = last_type if last_type in ("tls-alpn-01", "http-01") else None
            return cls(max(0, value["failures"]), value["not_before"], str(value.get("reason", "")), kind)
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {"failures": self.failures, "not_before": self.not_before, "reason": self.reason, "worked": self.last_challenge_type}

    def is_due(self, now: float) -> bool:
        # A clock that was set back must not delay a request for years.
        return now >= self.not_before or self.not_before > now + MAX_RETRY_AFTER

    def after_failure(self, now: float, reason: str, retry_after: float | None, max_pause: float = MAX_RETRY_AFTER) -> Self:
        pause = max(BACKOFF_SCHEDULE[min(self.failures, len(BACKOFF_SCHEDULE) - 1)], retry_after or 0.0)
        return replace(self, failures=self.failures + 1, not_before=now + min(pause, max_pause), reason=reason)

    def challenge(self, *, has_http: bool) -> ChallengeType:
        """Return the challenge type to try.

        It is TLS-ALPN-01, or HTTP-01 if that succeeded last; after each failure it alternates, if HTTP-01 can be answered.
        """
        if not has_http:
            return "tls-alpn-01"
        kinds: tuple[ChallengeType, ChallengeType] = (
            ("http-01", "tls-alpn-01") if self.last_challenge_type == "http-01" else ("tls-alpn-01", "http-01")
        )
        return kinds[self.failures % 2]
