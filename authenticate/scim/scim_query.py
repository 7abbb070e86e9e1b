"""SCIM queries: filter, page and attributes, in a URL (RFC 7644 3.4.2) or in the body of `POST .../.search` (3.4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from authenticate.scim import scim_filter
from authenticate.scim.attribute_paths import Path, key_in, path_of
from authenticate.scim.scim_errors import invalid
from authenticate.scim.scim_filter import ScimFilter

DEFAULT_COUNT = 100
MOST_RESULTS = 500
SEARCH = ".search"

_ALWAYS = frozenset({"id", "schemas"})

Paths = frozenset[Path]


@dataclass(frozen=True, slots=True)
class AttributeSelection:
    """The attributes to return (none: all), and those to leave out."""

    wanted: Paths
    left_out: Paths

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """The selection in a URL or a document, by the names of RFC 7644; ScimError where it can't be read."""
        return cls(*(_paths(name, said.get(key_in(said, name))) for name in ("attributes", "excludedAttributes")))

    def shown(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        """The selected part of a resource (RFC 7644 3.9): Entra ID leaves out members when it looks for a group."""
        some = dict(resource) if not self.wanted else _part(resource, self.wanted)
        for path in self.left_out:
            _leave_out(some, path)
        return {**{name: value for name, value in resource.items() if name in _ALWAYS}, **some}


@dataclass(frozen=True, slots=True)
class ScimQuery:
    """Filter, and a page of results from `start` (the first is 1), at most `count`."""

    asked: ScimFilter | None
    start: int
    count: int
    selection: AttributeSelection

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """The query in a URL or a document; ScimError where it can't be read."""
        text, start, count = (said.get(key_in(said, name)) for name in ("filter", "startIndex", "count"))
        if text is not None and not isinstance(text, str):
            raise invalid("filter must be text")
        return cls(
            scim_filter.parse(text) if text else None,
            max(_number("startIndex", start, 1), 1),
            min(max(_number("count", count, DEFAULT_COUNT), 0), MOST_RESULTS),
            AttributeSelection.of(said),
        )


def _number(name: str, value: Any, otherwise: int) -> int:
    if value is None or value == "":
        return otherwise
    text = value if isinstance(value, str) else str(value) if type(value) is int else "?"
    if len(text) > 10 or not text.removeprefix("-").isdecimal():
        raise invalid(f"{name} must be a whole number")
    return int(text)


def _paths(name: str, value: Any) -> Paths:
    """Attribute paths in a list, or in text with commas."""
    names = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise invalid(f"{name} must name attributes")
    return frozenset(tuple(step.lower() for step in path_of(each.strip())) for each in names if each.strip())


def _part(value: Any, wanted: Paths) -> Any:
    """The part of a value at a path; of a list, that part of each element."""
    if () in wanted:
        return value
    if isinstance(value, list):
        return [_part(element, wanted) for element in value]
    if not isinstance(value, Mapping):
        return value
    below = {name: frozenset(path[1:] for path in wanted if path[0] == name.lower()) for name in value}
    return {name: _part(value[name], paths) for name, paths in below.items() if paths}


def _leave_out(holder: dict[str, Any], path: Path) -> None:
    name = next((name for name in holder if path and name.lower() == path[0]), None)
    if name is None:
        return
    if len(path) == 1:
        del holder[name]
        return
    # Copies: what is shown shares its values with the record.
    if isinstance(holder[name], Mapping):
        holder[name] = _without(holder[name], path[1:])
    elif isinstance(holder[name], list | tuple):
        holder[name] = [_without(element, path[1:]) if isinstance(element, Mapping) else element for element in holder[name]]


def _without(value: Mapping[str, Any], path: Path) -> dict[str, Any]:
    copy = dict(value)
    _leave_out(copy, path)
    return copy
