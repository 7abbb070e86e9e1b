"""Attribute paths of resources: names in any case, dotted, or in full with their schema (RFC 7644 3.10)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from authenticate.scim.scim_errors import invalid

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

# In all others, letters are the same in either case (RFC 7643, 7 and 8.7.1).
CASE_EXACT = frozenset({"id", "externalid", "value", "$ref", "version", "location"})

Path = tuple[str, ...]

_CORE = (USER.lower(), GROUP.lower())
# A schema ends with a version and a type (RFC 7643, 10.2.1); what follows is an attribute of it.
_OF_SCHEMA = re.compile(r"(?P<schema>urn:.+?:[0-9]+(?:\.[0-9]+)*:\w+)(?::(?P<name>.*))?", re.IGNORECASE | re.DOTALL)


def path_of(name: str) -> Path:
    """The steps of a path: `name.givenName` is (name, givenName); an extension's name is one step; () is the resource itself, by its
    core schema.
    """
    if not name.lower().startswith("urn:"):
        return tuple(name.split("."))
    match = _OF_SCHEMA.fullmatch(name)
    if match is None:
        return (name,)
    schema = match["schema"]
    steps = tuple(match["name"].split(".")) if match["name"] is not None else ()
    if schema.lower() in _CORE:
        return steps
    return (ENTERPRISE if schema.lower() == ENTERPRISE.lower() else schema, *steps)


def attributes_in(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, value) of each attribute.  Some clients put an object of them under the name of the core schema."""
    seen = set[str]()
    for name, value in _unwrapped(document):
        if name.lower() in seen:
            # Which of the two is meant, nobody can say.
            raise invalid(f"duplicate {name[:64]}")
        seen.add(name.lower())
        yield name, value


def _unwrapped(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        core = next((schema for schema in _CORE if name.lower() == schema or name.lower().startswith(schema + ":")), None)
        if core is None:
            yield name, value
        elif len(name) > len(core):
            yield name[len(core) + 1 :], value
        elif isinstance(value, Mapping):
            yield from _unwrapped(value)
        elif value is not None:
            raise invalid(f"{name} must be an object of its attributes")


def key_in(resource: Mapping[str, Any], name: str) -> str:
    """The key of this name as the resource spells it; `name` itself where it has none."""
    if name in resource:
        return name
    return next((key for key in resource if key.lower() == name.lower()), name)


def values_at(value: Any, path: Path) -> list[Any]:
    """All values at the path; of a list, those of each element."""
    if isinstance(value, list):
        return [found for element in value for found in values_at(element, path)]
    if not path:
        return [] if value is None else [value]
    if not isinstance(value, Mapping):
        return []
    return values_at(value.get(key_in(value, path[0])), path[1:])


def folded(path: Path, value: Any) -> Any:
    """A value as it is compared, without case."""
    if isinstance(value, str) and path[-1].lower() not in CASE_EXACT:
        return value.casefold()
    return value
