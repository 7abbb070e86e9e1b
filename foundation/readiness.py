"""Readiness of gate's components, from their own state and without further requests."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class ReadinessState(StrEnum):
    """State of a component. FAILING: this process cannot authorize or forward requests, so load balancers should avoid it."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """State of a component with a reason for operators, which contains no secret."""

    name: str
    state: ReadinessState = ReadinessState.OK
    reason: str = ""

    def __str__(self) -> str:
        """Return one line, even if the reason has several."""
        return " ".join(f"{self.name}: {self.state}{': ' if self.reason else ''}{self.reason}".split())


def degraded(name: str, reason: str) -> ComponentStatus:
    return ComponentStatus(name, ReadinessState.DEGRADED, reason)


def failing(name: str, reason: str) -> ComponentStatus:
    return ComponentStatus(name, ReadinessState.FAILING, reason)


@dataclass(frozen=True, slots=True)
class ReadinessReport:
    """Readiness of all components of this process."""

    components: tuple[ComponentStatus, ...]

    @property
    def is_ready(self) -> bool:
        return all(part.state is not ReadinessState.FAILING for part in self.components)

    @property
    def status(self) -> int:
        """HTTP status: 200, or 503 if load balancers should use other processes."""
        return 200 if self.is_ready else 503

    def summary(self) -> str:
        details = [str(part) for part in self.components if part.state is not ReadinessState.OK]
        return "; ".join(["ready" if self.is_ready else "not ready", *details])

    def as_text(self) -> str:
        return "\n".join(["ready" if self.is_ready else "not ready", *map(str, self.components), ""])

    def as_json(self) -> str:
        components = {each.name: {"state": each.state, "reason": each.reason} for each in self.components}
        return json.dumps({"ready": self.is_ready, "components": components}) + "\n"


def format_utc(seconds: float) -> str:
    """Format Unix seconds as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class HealthTracker:
    """Health of a dependency that is used from time to time: its error, and the time of its last change."""

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self.error = ""
        self.changed_at = 0.0  # Unix seconds: start of the error, or last success; 0 if unknown

    def mark_up(self) -> None:
        self.error, self.changed_at = "", self._clock()

    def mark_down(self, reason: str, failed_at: float | None = None) -> None:
        """Record an error; `failed_at` is its start if it began earlier."""
        if failed_at is not None or not self.error:
            self.changed_at = self._clock() if failed_at is None else failed_at
        self.error = reason
