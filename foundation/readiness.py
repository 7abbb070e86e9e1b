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
class PartReadiness:
    """Readiness of a part, and why, in words for operators; never a secret."""

    name: str
    state: ReadinessState = ReadinessState.OK
    reason: str = ""

    def __str__(self) -> str:
        """One line, whatever the reason was made of."""
        return " ".join(f"{self.name}: {self.state}{': ' if self.reason else ''}{self.reason}".split())


def degraded(name: str, reason: str) -> PartReadiness:
    return PartReadiness(name, ReadinessState.DEGRADED, reason)


def failing(name: str, reason: str) -> PartReadiness:
    return PartReadiness(name, ReadinessState.FAILING, reason)


@dataclass(frozen=True, slots=True)
class ReadinessReport:
    """Report over all parts of this process."""

    parts: tuple[PartReadiness, ...]

    @property
    def is_ready(self) -> bool:
        return all(part.state is not ReadinessState.FAILING for part in self.parts)

    @property
    def status(self) -> int:
        """Status for HTTP: 200, or 503 where balancers should send requests elsewhere."""
        return 200 if self.is_ready else 503

    def in_one_line(self) -> str:
        told = [str(part) for part in self.parts if part.state is not ReadinessState.OK]
        return "; ".join(["ready" if self.is_ready else "not ready", *told])

    def as_text(self) -> str:
        return "\n".join(["ready" if self.is_ready else "not ready", *map(str, self.parts), ""])

    def as_json(self) -> str:
        parts = {part.name: {"state": part.state, "reason": part.reason} for part in self.parts}
        return json.dumps({"ready": self.is_ready, "parts": parts}) + "\n"


def moment(seconds: float) -> str:
    """Time of Unix seconds, UTC, to the second (RFC 3339)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class PartHealth:
    """Health of what is asked now and then: when it last worked, or since when it does not, and why."""

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self.trouble = ""
        self.since = 0.0  # Unix seconds: of the trouble, or of the last time it worked; 0 where neither is known

    def works(self) -> None:
        self.trouble, self.since = "", self._clock()

    def fails(self, reason: str, since: float | None = None) -> None:
        """Trouble, `since` earlier than now where that is known."""
        if since is not None or not self.trouble:
            self.since = self._clock() if since is None else since
        self.trouble = reason
