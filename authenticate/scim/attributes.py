"""Where in a resource is an attribute?  Names in any case, dotted, or in full with their schema (RFC 7644, 3.10)."""

from collections.abc import Mapping
from typing import Any

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

# In all others, letters are the same in either case (RFC 7643, 7 and 8.7.1).
CASE_EXACT = frozenset({"id", "externalid", "value", "$ref", "version", "location"})

Path = tuple[str, ...]


def path_of(name: str) -> Path:
    """`name.givenName` -> (name, givenName); the name of an extension is one step."""
    lower = name.lower()
    for schema in (USER, GROUP):
        if lower.startswith(schema.lower() + ":"):
            return path_of(name[len(schema) + 1 :])
    if lower == ENTERPRISE.lower():
        return (ENTERPRISE,)
    if lower.startswith(ENTERPRISE.lower() + ":"):
        return (ENTERPRISE, *path_of(name[len(ENTERPRISE) + 1 :]))
    return tuple(name.split("."))


def key_in(resource: Mapping[str, Any], name: str) -> str:
    """The key of this name as the resource spells it; `name` itself where it has none."""
    if name in resource:
        return name
    return next((key for key in resource if key.lower() == name.lower()), name)


def values_at(value: Any, path: Path) -> list[Any]:
    """All values that the path leads to; of a list, those of each element."""
    if isinstance(value, list):
        return [found for element in value for found in values_at(element, path)]
    if not path:
        return [] if value is None else [value]
    if not isinstance(value, Mapping):
        return []
    return values_at(value.get(key_in(value, path[0])), path[1:])


def folded(path: Path, value: Any) -> Any:
    """As it is compared."""
    if isinstance(value, str) and path[-1].lower() not in CASE_EXACT:
        return value.casefold()
    return value
