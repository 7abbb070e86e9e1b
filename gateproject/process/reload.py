"""Reload: applies a new configuration to each subsystem. A failing step does not stop the others; there is no rollback."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

import structlog

from config.config_watcher import ConfigWatcher
from config.inspect.config_diff import MAX_CHANGES, ConfigSnapshot, ValueChange, diff_configs, diff_settings
from config.inspect.source_map import SourceMap
from config.options import Options
from foundation.errors import Problem
from foundation.readiness import ComponentStatus, degraded, format_utc
from foundation.telemetry import metrics
from gateproject.process.restart_only import restart_required

log = structlog.get_logger(__name__)

PART = "config"
ReloadStep = Callable[[], Awaitable[object] | object]


@dataclass(frozen=True, slots=True)
class ConfigurationStatus:
    """Status of the active configuration; `problems` are those of a rejected file, or of steps that failed."""

    file: str
    checksum: str
    loaded: datetime
    problems: tuple[Problem, ...] = ()
    refused: datetime | None = None

    def readiness(self) -> ComponentStatus:
        """Return the readiness: the active configuration serves, but a rejected file prevents the next start.

        Envoy reports its own state.
        """
        reason = "; ".join(str(problem) for problem in self.problems if problem.key != "envoy")
        if self.refused is not None:
            since = format_utc(self.refused.timestamp())
            return degraded(
                PART, f"{self.file} was rejected at {since}; the previous configuration stays active, and a restart would fail: {reason}"
            )
        return degraded(PART, reason) if reason else ComponentStatus(PART, reason=f"{self.file}, {self.checksum}")

    @classmethod
    def from_watcher(cls, source: ConfigWatcher) -> "ConfigurationStatus":
        """Return the status of a configuration that has just been loaded."""
        return cls(str(source.path or "environment"), source.checksum, datetime.now(UTC))

    def publish(self, service: str) -> "ConfigurationStatus":
        """Publish in metrics whether this configuration is active or another was rejected; `service` is the label."""
        metrics.record_config_loaded(service, int(self.checksum, 16), self.loaded.timestamp())
        if self.problems:
            metrics.record_config_rejected(service)
        return self

    def rejected_with(self, problems: Sequence[Problem], service: str) -> "ConfigurationStatus":
        """Return the status after another configuration was rejected, before any of it was applied."""
        for problem in problems:
            log.error("configuration rejected", file=self.file, problem=str(problem))
        metrics.record_config_rejected(service)
        return replace(self, problems=tuple(problems), refused=datetime.now(UTC))

    def with_degradation(self, problems: tuple[Problem, ...], service: str) -> "ConfigurationStatus":
        """Return the status with the subsystems that did not apply the configuration."""
        if problems:
            metrics.record_config_rejected(service)
        return replace(self, problems=problems)


class Reload:
    """Reload of all subsystems. `problems` are those of failed steps, which are logged; the subsystem keeps its old state."""

    def __init__(self) -> None:
        self.problems: tuple[Problem, ...] = ()

    async def apply(self, part: str, step: ReloadStep) -> None:
        """Run a step and record its error. Never raises, because there is no rollback after the swap."""
        try:
            pending = step()
            if isinstance(pending, Awaitable):
                await pending
        except Exception as error:  # every error is caught, so that the other steps run
            log.exception("configuration reload incomplete", component=part)
            self.record_failure(part, f"{type(error).__name__}: {error}")

    def record_failure(self, part: str, reason: str) -> None:
        """Record a reason; "" is none."""
        if not reason:
            return
        self.problems = (*self.problems, Problem(part, f"failed to apply the new configuration, which is active otherwise: {reason}"))


@dataclass(frozen=True, slots=True)
class LastChange:
    """Last change of the configuration. `before` is the previous status; `found` are the first of `number` changes."""

    before: ConfigurationStatus
    changes: Sequence[ValueChange]
    number: int


@dataclass(frozen=True, slots=True)
class ConfigProvenance:
    """Provenance of the active configuration; `waiting` are values of its file that require a restart."""

    source_map: SourceMap = field(default_factory=SourceMap)
    pending_restart: Sequence[ValueChange] = ()
    last: LastChange | None = None

    def advance(self, running: Options, status: ConfigurationStatus, written: ConfigSnapshot, applied: Options) -> Self:
        """Return the provenance once `applied` replaces `running`: what was `written`, except values that require a restart."""
        unchanged = restart_required(written.options, running)
        places = written.source_map.with_retained(unchanged, self.source_map)
        before = ConfigSnapshot(running, self.source_map)
        found = list(diff_configs(before, ConfigSnapshot(applied, places)))
        last = LastChange(status, tuple(describe() for describe in found[:MAX_CHANGES]), len(found)) if found else self.last
        return type(self)(places, tuple(describe() for describe in diff_settings(before, written, unchanged)), last)
