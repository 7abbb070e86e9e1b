"""Attribute paths of resources: case-insensitive names, dotted or qualified with their schema (RFC 7644 3.10)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from authenticate.scim.scim_errors import invalid

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

# Values of all other attributes are compared without case (RFC 7643, 7 and 8.7.1).
CASE_EXACT = frozenset({"id", "externalid", "value", "$ref", "version", "location"})

Path = tuple[str, ...]

_CORE = (USER.lower(), GROUP.lower())
# A schema ends with a version and a type (RFC 7643, 10.2.1); the rest is an attribute of it.
_OF_SCHEMA = re.compile(r"(?P<schema>urn:.+?:[0-9]+(?:\.[0-9]+)*:\w+)(?::(?P<name>.*))?", re.IGNORECASE | re.DOTALL)


def parse_path(name: str) -> Path:
    """Return the steps of a path: `name.givenName` is (name, givenName).

    The name of an extension schema is one step.  The core schema alone is (), the resource itself.
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


def iter_attributes(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of each attribute, also of an object under the name of the core schema, as some clients send it.

    Raises ScimError if a name occurs twice.
    """
    seen = set[str]()
    for name, value in _unwrapped(document):
        if name.lower() in seen:
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


def find_key(resource: Mapping[str, Any], name: str) -> str:
    """Return the resource's spelling of this key, or `name` if it has none."""
    if name in resource:
        return name
    return next((key for key in resource if key.lower() == name.lower()), name)


def get_values(value: Any, path: Path) -> list[Any]:
    """Return all values at the path; for a list, those of each element."""
    if isinstance(value, list):
        return [found for element in value for found in get_values(element, path)]
    if not path:
        return [] if value is None else [value]
    if not isinstance(value, Mapping):
        return []
    return get_values(value.get(find_key(value, path[0])), path[1:])


def normalize_value(path: Path, value: Any) -> Any:
    """Return a value in the form in which it is compared: without case, unless the attribute is case-exact."""
    if isinstance(value, str) and path[-1].lower() not in CASE_EXACT:
        return value.casefold()
    return value
