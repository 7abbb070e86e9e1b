"""Source map: the file and line, or the environment variable, that each value of a configuration came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

DEFAULT = "default"
Lines = Mapping[str, int]  # key -> its first line


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Locations of the values of one configuration.

    `routes` follows the order of `policy`, and is empty if `policy` is not a list in the file. `retained` has the locations of settings
    that keep their earlier value until the next start.
    """

    file: str = ""
    settings: Lines = field(default_factory=dict)
    environment: frozenset[str] = frozenset()
    routes: Sequence[Lines] = ()
    retained: Mapping[str, str] = field(default_factory=dict)

    def setting_location(self, key: str) -> str:
        """Return the location of a setting as text."""
        if (place := self.retained.get(key)) is not None:
            return place
        if key in self.environment:
            return f"environment, {key.upper()}"
        return DEFAULT if key not in self.settings else self._at(self.settings[key])

    def route_location(self, index: int, key: str) -> str:
        """Return the location of a key of a route."""
        lines = self.routes[index] if index < len(self.routes) else {}
        return self._at(lines[key]) if key in lines else self.setting_location("policy")

    def with_retained(self, keys: Sequence[str], before: "SourceMap") -> "SourceMap":
        """Return a map in which these settings have the locations of `before`."""
        return replace(self, retained={key: before.setting_location(key) for key in keys})

    def _at(self, line: int) -> str:
        return f"{self.file}:{line}"
