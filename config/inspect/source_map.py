"""Places: which file and line, or which environment variable, each value of a configuration came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

DEFAULT = "default"
Lines = Mapping[str, int]  # key -> the line that it begins in


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Places of the values of one configuration.  `routes` are by their place in `policy`, and empty where that is no list of the file.

    `kept` are of settings that still have the value of an earlier file, until the next start.
    """

    file: str = ""
    settings: Lines = field(default_factory=dict)
    environment: frozenset[str] = frozenset()
    routes: Sequence[Lines] = ()
    retained: Mapping[str, str] = field(default_factory=dict)

    def setting_location(self, key: str) -> str:
        """Place of a setting, in words."""
        if (place := self.retained.get(key)) is not None:
            return place
        if key in self.environment:
            return f"environment, {key.upper()}"
        return DEFAULT if key not in self.settings else self._at(self.settings[key])

    def route_location(self, index: int, key: str) -> str:
        """Place of a key that the route has."""
        lines = self.routes[index] if index < len(self.routes) else {}
        return self._at(lines[key]) if key in lines else self.setting_location("policy")

    def with_retained(self, keys: Sequence[str], before: "SourceMap") -> "SourceMap":
        """Places where these settings are still those of `before`."""
        return replace(self, retained={key: before.setting_location(key) for key in keys})

    def _at(self, line: int) -> str:
        return f"{self.file}:{line}"
