"""Readiness: what each part of gate knows of itself, without asking anybody, and whether requests can be judged and carried."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class ReadinessState(StrEnum):
    """State of a part.  FAILING: requests can't be judged or carried here, so a balancer should send them elsewhere."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """Readiness of a part, and why, in words for operators; never a secret."""

    name: str
    state: ReadinessState = ReadinessState.OK
    reason: str = ""

    def __str__(self) -> str:
        """One line, whatever the reason was made of."""
        return " ".join(f"{self.name}: {self.state}{': ' if self.reason else ''}{self.reason}".split())


def degraded(name: str, reason: str) -> ComponentStatus:
    return ComponentStatus(name, ReadinessState.DEGRADED, reason)


def failing(name: str, reason: str) -> ComponentStatus:
    return ComponentStatus(name, ReadinessState.FAILING, reason)


@dataclass(frozen=True, slots=True)
class ReadinessReport:
    """Report over all parts of this process."""

    components: tuple[ComponentStatus, ...]

    @property
    def is_ready(self) -> bool:
        return all(part.state is not ReadinessState.FAILING for part in self.components)

    @property
    def status(self) -> int:
        """Status for HTTP: 200, or 503 where balancers should send requests elsewhere."""
        return 200 if self.is_ready else 503

    def summary(self) -> str:
        told = [str(part) for part in self.components if part.state is not ReadinessState.OK]
        return "; ".join(["ready" if self.is_ready else "not ready", *told])

    def as_text(self) -> str:
        return "\n".join(["ready" if self.is_ready else "not ready", *map(str, self.components), ""])

    def as_json(self) -> str:
        parts = {part.name: {"state": part.state, "reason": part.reason} for part in self.components}
        return json.dumps({"ready": self.is_ready, "parts": parts}) + "\n"


def format_utc(seconds: float) -> str:
    """Time of Unix seconds, UTC, to the second (RFC 3339)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class HealthTracker:
    """Health of what is asked now and then: when it last worked, or since when it does not, and why."""

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self.error = ""
        self.changed_at = 0.0  # Unix seconds: of the trouble, or of the last time it worked; 0 where neither is known

    def mark_up(self) -> None:
        self.error, self.changed_at = "", self._clock()

    def mark_down(self, reason: str, failed_at: float | None = None) -> None:
        """Trouble, `since` earlier than now where that is known."""
        if failed_at is not None or not self.error:
            self.changed_at = self._clock() if failed_at is None else failed_at
        self.error = reason
