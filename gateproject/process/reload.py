"""Reload, the telling of a new configuration that is in force: each part hears of it by itself; one that fails keeps no other from it,
and nothing is undone.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from config.source import ConfigSource
from foundation.errors import Problem
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

ReloadStep = Callable[[], Awaitable[object] | object]


@dataclass(frozen=True, slots=True)
class ConfigurationStatus:
    """Status of what is in force, and what is wrong since: `problems` of the refused file, or of the parts that did not take it."""

    file: str
    checksum: str
    loaded: datetime
    problems: tuple[Problem, ...] = ()
    refused: datetime | None = None

    @classmethod
    def in_force(cls, source: ConfigSource, service: str) -> "ConfigurationStatus":
        """Status in force, said in metrics, too; `service` is their label."""
        loaded = datetime.now(UTC)
        metrics.configuration_in_force(service, int(source.checksum, 16), loaded.timestamp())
        return cls(str(source.path or "environment"), source.checksum, loaded)

    def but_refused(self, problems: Sequence[Problem], service: str) -> "ConfigurationStatus":
        """Status after another one was refused, before anything of it was in force."""
        for problem in problems:
            log.error("configuration refused, the last good one stays in force", file=self.file, problem=str(problem))
        metrics.configuration_refused(service)
        return replace(self, problems=tuple(problems), refused=datetime.now(UTC))

    def but_lagging(self, problems: tuple[Problem, ...], service: str) -> "ConfigurationStatus":
        """Status in force, where these parts did not take it."""
        if problems:
            metrics.configuration_refused(service)
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
            log.exception("the new configuration is in force, but a part of gate did not take it", part=part)
            self.lags(part, f"{type(error).__name__}: {error}")

    def lags(self, part: str, reason: str) -> None:
        """ "" is no reason."""
        if not reason:
            return
        self.problems = (*self.problems, Problem(part, f"did not take the new configuration, which is in force otherwise: {reason}"))
