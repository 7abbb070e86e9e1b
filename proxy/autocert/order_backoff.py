"""Backoff of certificate requests: when the authority may be asked again after a failure.  Pure: values and times in, times out.

Let's Encrypt allows five failed validations of a host in an hour: with these pauses there are five.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from proxy.listener.tls.acme_state import ChallengeType

MINUTE = 60.0
PAUSES = tuple(minutes * MINUTE for minutes in (1, 5, 15, 30, 60, 120, 240, 360))
# Where the authority itself is away or asks for patience nobody else tries either, but no longer than this: one host's limit may be days.
LONGEST_PAUSE_OF_ALL = 15 * MINUTE
LONGEST_RETRY_AFTER = 14 * 24 * 60 * MINUTE
ALL = "*"


# enforcement-point: Services and certificates: ACME retry limits
@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempts of a host, the last ones; `not_before` is in Unix seconds.  `worked` is the challenge that did the last time."""

    failures: int = 0
    not_before: float = 0.0
    reason: str = ""
    worked: ChallengeType | None = None

    @classmethod
    def read(cls, found: object) -> Self:
        """Attempts from a file that somebody may have broken: then as if nothing had been tried."""
        if isinstance(found, Mapping) and isinstance(found.get("failures"), int) and isinstance(found.get("not_before"), int | float):
            worked = found.get("worked")
            kind: ChallengeType | None = worked if worked in ("tls-alpn-01", "http-01") else None
            return cls(max(0, found["failures"]), found["not_before"], str(found.get("reason", "")), kind)
        return cls()

    def written(self) -> dict[str, Any]:
        return asdict(self)

    def may_begin(self, now: float) -> bool:
        # A clock that was set back must not keep us waiting for years.
        return now >= self.not_before or self.not_before > now + LONGEST_RETRY_AFTER

    def failed(self, now: float, reason: str, retry_after: float | None, longest: float = LONGEST_RETRY_AFTER) -> Self:
        pause = max(PAUSES[min(self.failures, len(PAUSES) - 1)], retry_after or 0.0)
        return replace(self, failures=self.failures + 1, not_before=now + min(pause, longest), reason=reason)

    def challenge(self, *, has_http: bool) -> ChallengeType:
        """Challenge to try: TLS-ALPN-01 unless the other has worked; after a failure the other one, where it can be answered."""
        if not has_http:
            return "tls-alpn-01"
        kinds: tuple[ChallengeType, ChallengeType] = ("http-01", "tls-alpn-01") if self.worked == "http-01" else ("tls-alpn-01", "http-01")
        return kinds[self.failures % 2]
