"""SCIM queries: filter, page and attribute selection, from a URL (RFC 7644 3.4.2) or the body of `POST .../.search` (3.4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from authenticate.scim import scim_filter
from authenticate.scim.attribute_paths import Path, find_key, parse_path
from authenticate.scim.scim_errors import invalid
from authenticate.scim.scim_filter import ScimFilter

DEFAULT_COUNT = 100
MAX_RESULTS = 500
SEARCH = ".search"

_ALWAYS = frozenset({"id", "schemas"})

Paths = frozenset[Path]


@dataclass(frozen=True, slots=True)
class AttributeSelection:
    """Attributes to return (none: all), and attributes to exclude."""

    included: Paths
    excluded: Paths

    @classmethod
    def parse(cls, params: Mapping[str, Any]) -> Self:
        """Parse `attributes` and `excludedAttributes`.  Raises ScimError if they are invalid."""
        return cls(*(_parse_paths(name, params.get(find_key(params, name))) for name in ("attributes", "excludedAttributes")))

    def apply(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected part of a resource (RFC 7644 3.9).  Entra ID excludes members when it searches for a group."""
        selected = dict(resource) if not self.included else _select(resource, self.included)
        for path in self.excluded:
            _exclude(selected, path)
        return {**{name: value for name, value in resource.items() if name in _ALWAYS}, **selected}


@dataclass(frozen=True, slots=True)
class ScimQuery:
    """Filter, page and attribute selection.  `start` is 1-based."""

    filter: ScimFilter | None
    start: int
    count: int
    selection: AttributeSelection

    @classmethod
    def parse(cls, params: Mapping[str, Any]) -> Self:
        """Parse a query from URL parameters or a document.  Raises ScimError if it is invalid."""
        text, start, count = (params.get(find_key(params, name)) for name in ("filter", "startIndex", "count"))
        if text is not None and not isinstance(text, str):
            raise invalid("filter must be text")
        return cls(
            scim_filter.parse_filter(text) if text else None,
            max(_parse_integer("startIndex", start, 1), 1),
            min(max(_parse_integer("count", count, DEFAULT_COUNT), 0), MAX_RESULTS),
            AttributeSelection.parse(params),
        )


def _parse_integer(name: str, value: Any, otherwise: int) -> int:
    if value is None or value == "":
        return otherwise
    text = value if isinstance(value, str) else str(value) if type(value) is int else "?"
    if len(text) > 10 or not text.removeprefix("-").isdecimal():
        raise invalid(f"{name} must be a whole number")
    return int(text)


def _parse_paths(name: str, value: Any) -> Paths:
    """Parse attribute paths from a list or comma-separated text."""
    names = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise invalid(f"{name} must name attributes")
    return frozenset(tuple(step.lower() for step in parse_path(each.strip())) for each in names if each.strip())


def _select(value: Any, included: Paths) -> Any:
    """Return the part of a value at these paths; for a list, that part of each element."""
    if () in included:
        return value
    if isinstance(value, list):
        return [_select(element, included) for element in value]
    if not isinstance(value, Mapping):
        return value
    below = {name: frozenset(path[1:] for path in included if path[0] == name.lower()) for name in value}
    return {name: _select(value[name], paths) for name, paths in below.items() if paths}


def _exclude(parent: dict[str, Any], path: Path) -> None:
    name = next((name for name in parent if path and name.lower() == path[0]), None)
    if name is None:
        return
    if len(path) == 1:
        del parent[name]
        return
    # Copy, because the response shares its values with the record.
    if isinstance(parent[name], Mapping):
        parent[name] = _without(parent[name], path[1:])
    elif isinstance(parent[name], list | tuple):
        parent[name] = [_without(element, path[1:]) if isinstance(element, Mapping) else element for element in parent[name]]


def _without(value: Mapping[str, Any], path: Path) -> dict[str, Any]:
    copy = dict(value)
    _exclude(copy, path)
    return copy
