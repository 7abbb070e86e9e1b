"""Reload, the telling of a new configuration that is in force: each part hears of it by itself; one that fails keeps no other from it,
and nothing is undone.
"""

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
from gateproject.process.restart_only import kept_until_restart

log = structlog.get_logger(__name__)

PART = "config"
ReloadStep = Callable[[], Awaitable[object] | object]


@dataclass(frozen=True, slots=True)
class ConfigurationStatus:
    """Status of what is in force, and what is wrong since: `problems` of the refused file, or of the parts that did not take it."""

    file: str
    checksum: str
    loaded: datetime
    problems: tuple[Problem, ...] = ()
    refused: datetime | None = None

    def readiness(self) -> ComponentStatus:
        """Readiness: what is in force serves; but a refused file stops the next start, and a part may be behind.

        Envoy, which may take it later, speaks for itself.
        """
        told = "; ".join(str(problem) for problem in self.problems if problem.key != "envoy")
        if self.refused is not None:
            since = format_utc(self.refused.timestamp())
            return degraded(
                PART, f"{self.file} was rejected at {since}; the previous configuration stays active, and a restart would fail: {told}"
            )
        return degraded(PART, told) if told else ComponentStatus(PART, reason=f"{self.file}, {self.checksum}")

    @classmethod
    def of(cls, source: ConfigWatcher) -> "ConfigurationStatus":
        """Status of what was loaded just now."""
        return cls(str(source.path or "environment"), source.checksum, datetime.now(UTC))

    def tell(self, service: str) -> "ConfigurationStatus":
        """Say in metrics that this one is in force, or that another was refused; `service` is their label."""
        metrics.record_config_loaded(service, int(self.checksum, 16), self.loaded.timestamp())
        if self.problems:
            metrics.record_config_rejected(service)
        return self

    def but_refused(self, problems: Sequence[Problem], service: str) -> "ConfigurationStatus":
        """Status after another one was refused, before anything of it was in force."""
        for problem in problems:
            log.error("configuration rejected", file=self.file, problem=str(problem))
        metrics.record_config_rejected(service)
        return replace(self, problems=tuple(problems), refused=datetime.now(UTC))

    def but_lagging(self, problems: tuple[Problem, ...], service: str) -> "ConfigurationStatus":
        """Status in force, where these parts did not take it."""
        if problems:
            metrics.record_config_rejected(service)
        return replace(self, problems=problems)


class Reload:
    """Reload, as each part takes it.  `problems` are those of the parts that did not take it: they go on as before, and the log says so."""

    def __init__(self) -> None:
        self.problems: tuple[Problem, ...] = ()

    async def tell(self, part: str, step: ReloadStep) -> None:
        """Never raises, whatever the step does: after the swap there is no way back that could be told truthfully."""
        try:
            said = step()
            if isinstance(said, Awaitable):
                await said
        except Exception as error:  # whatever it is, the others must hear of it
            log.exception("configuration reload incomplete", part=part)
            self.lags(part, f"{type(error).__name__}: {error}")

    def lags(self, part: str, reason: str) -> None:
        """ "" is no reason."""
        if not reason:
            return
        self.problems = (*self.problems, Problem(part, f"failed to apply the new configuration, which is active otherwise: {reason}"))


@dataclass(frozen=True, slots=True)
class LastChange:
    """Last change of the configuration.  `before` is the status of what was in force until then; `found` are the first of `number`."""

    before: ConfigurationStatus
    found: Sequence[ValueChange]
    number: int


@dataclass(frozen=True, slots=True)
class InForce:
    """What is known of the configuration in force; `waiting` are values of its file that wait for a restart."""

    places: SourceMap = field(default_factory=SourceMap)
    waiting: Sequence[ValueChange] = ()
    last: LastChange | None = None

    def after(self, running: Options, status: ConfigurationStatus, written: ConfigSnapshot, taken: Options) -> Self:
        """What is known once `taken` is in force in place of `running`: that is what was `written`, but for what waits for a restart."""
        kept = kept_until_restart(written.options, running)
        places = written.source_map.with_retained(kept, self.places)
        before = ConfigSnapshot(running, self.places)
        found = list(diff_configs(before, ConfigSnapshot(taken, places)))
        last = LastChange(status, tuple(told() for told in found[:MAX_CHANGES]), len(found)) if found else self.last
        return type(self)(places, tuple(told() for told in diff_settings(before, written, kept)), last)
