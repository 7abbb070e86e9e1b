"""In force: where each value of the running configuration came from, and what the last change changed.  Kept in memory, for the admin."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from config.options import Options
from config.shown.changes import MOST, ValueChange, Version, changes, setting_changes
from config.shown.places import Places
from gateproject.process.reload import ConfigurationStatus
from gateproject.process.restart_only import kept_until_restart


@dataclass(frozen=True, slots=True)
class LastChange:
    """Last change of the configuration.  `before` is the status of what was in force until then; `found` are the first of `number`."""

    before: ConfigurationStatus
    found: Sequence[ValueChange]
    number: int


@dataclass(frozen=True, slots=True)
class InForce:
    """What is known of the configuration in force; `waiting` are values of its file that wait for a restart."""

    places: Places = field(default_factory=Places)
    waiting: Sequence[ValueChange] = ()
    last: LastChange | None = None

    def after(self, running: Options, status: ConfigurationStatus, written: Version, taken: Options) -> Self:
        """What is known once `taken` is in force in place of `running`: that is what was `written`, but for what waits for a restart."""
        kept = kept_until_restart(written.options, running)
        places = written.places.keeping(kept, self.places)
        before = Version(running, self.places)
        found = list(changes(before, Version(taken, places)))
        last = LastChange(status, tuple(told() for told in found[:MOST]), len(found)) if found else self.last
        return type(self)(places, tuple(told() for told in setting_changes(before, written, kept)), last)
