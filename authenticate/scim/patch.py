"""SCIM PATCH (RFC 7644 3.5.2): operations on a resource, in the dialects of those who send them.

Entra ID writes `Add` and `Replace`, "True" and "False", dotted keys in a value, and removes members by a list in `value`; Okta
replaces without a path and sends the id along.  What is without a path, or has the core schema as its path, is of the resource itself.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authenticate.scim import scim_filter
from authenticate.scim.attribute_paths import Path, attributes_in, key_in, path_of
from authenticate.scim.scim_errors import ScimError, invalid
from authenticate.scim.scim_filter import ScimFilter

MOST_OPERATIONS = 1000
# The server's own; who sends them along means no change.
READ_ONLY = frozenset({"id", "meta", "schemas", "groups"})
_PATH = re.compile(r"(?P<name>[A-Za-z$][\w$:.-]*)(?:\[(?P<filter>.+)\](?:\.(?P<sub>[A-Za-z$][\w$-]*))?)?", re.DOTALL)
_SIMPLE_EQ = re.compile(r'\s*([A-Za-z]\w*)\s+eq\s+"([^"\\]*)"\s*', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PatchTarget:
    """Parsed path: `chosen` filters the elements of a list, `made` is the element to make where there is none, `sub` an attribute of
    each.
    """

    path: Path
    chosen: ScimFilter | None
    made: Mapping[str, Any]
    sub: str


_ITSELF = PatchTarget((), None, {}, "")


def patched(resource: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """A changed copy of the resource; ScimError where any operation can't be carried out."""
    operations = request.get(key_in(request, "Operations"))
    if not isinstance(operations, list) or not 0 < len(operations) <= MOST_OPERATIONS:
        raise ScimError(400, f"Operations must be a list of 1 to {MOST_OPERATIONS}", "invalidSyntax")
    # Stored data refuse to be changed, also as a deep copy of themselves.
    changed: dict[str, Any] = json.loads(json.dumps(resource))
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise ScimError(400, "an operation must be an object", "invalidSyntax")
        _apply(changed, operation)
    return changed


def _apply(resource: dict[str, Any], operation: Mapping[str, Any]) -> None:
    op, path, value = (operation.get(key_in(operation, name)) for name in ("op", "path", "value"))
    op = op.lower() if isinstance(op, str) else ""
    if op not in ("add", "replace", "remove"):
        raise ScimError(400, "op must be add, replace or remove", "invalidSyntax")
    if path is not None and not isinstance(path, str):
        raise ScimError(400, "path must be text", "invalidPath")
    target = _target(path) if path else _ITSELF
    if op == "remove":
        _remove(resource, target, value)
    else:
        _set(resource, target, value, is_addition=op == "add")


def _target(text: str) -> PatchTarget:
    match = _PATH.fullmatch(text.strip())
    if match is None or len(text) > scim_filter.LONGEST:
        raise ScimError(400, "the path can't be read", "invalidPath")
    path = path_of(match["name"])
    if not all(path) or len(path) > 3:
        raise ScimError(400, "the path can't be read", "invalidPath")
    if match["filter"] is not None and not path:
        raise ScimError(400, "the path can't be read", "invalidPath")
    if match["filter"] is None:
        return PatchTarget(path, None, {}, "")
    simple = _SIMPLE_EQ.fullmatch(match["filter"])
    made = {simple[1]: simple[2]} if simple else {}
    return PatchTarget(path, scim_filter.parse(match["filter"]), made, match["sub"] or "")


def _holder(resource: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """The object that has the path's last step as its key; None where there is none."""
    at = resource
    for step in path[:-1]:
        if (found := at.get(key_in(at, step))) is None:
            return None
        at = _complex(found, step)
    return at


def _made_holder(resource: dict[str, Any], path: Path) -> dict[str, Any]:
    """As `_holder`; what is missing on the way is made."""
    at = resource
    for step in path[:-1]:
        key = key_in(at, step)
        if at.get(key) is None:
            at[key] = {}
        at = _complex(at[key], step)
    return at


def _complex(found: Any, step: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ScimError(400, f"{step} has no sub-attributes", "invalidPath")
    return found


def _set(resource: dict[str, Any], target: PatchTarget, value: Any, *, is_addition: bool) -> None:
    if not target.path:
        if not isinstance(value, Mapping):
            raise invalid("without a path, value must be an object")
        for name, member in attributes_in(value):
            _set(resource, _target(name), member, is_addition=is_addition)
        return
    if target.path[0].lower() in READ_ONLY:
        return
    holder = _made_holder(resource, target.path)
    key = key_in(holder, target.path[-1])
    if target.chosen is not None:
        _set_chosen(holder, key, target, value)
    elif is_addition and isinstance(holder.get(key), list):
        holder[key] = _with(holder[key], value)
    elif isinstance(holder.get(key), dict) and isinstance(value, Mapping):
        holder[key] = {**holder[key], **value}
    else:
        holder[key] = value


def _set_chosen(holder: dict[str, Any], key: str, target: PatchTarget, value: Any) -> None:
    elements = holder.setdefault(key, [])
    if not isinstance(elements, list) or target.chosen is None:
        raise ScimError(400, f"{key} is not a list", "invalidPath")
    chosen = [element for element in elements if isinstance(element, dict) and target.chosen.matches(element)]
    if not chosen:
        if not target.made:
            raise ScimError(400, "no element of the list matches", "noTarget")
        # Entra ID replaces the work address of who had none.
        chosen = [dict(target.made)]
        elements += chosen
    for element in chosen:
        if target.sub:
            element[key_in(element, target.sub)] = value
        elif isinstance(value, Mapping):
            element.update(value)
        else:
            raise invalid("an element of a list must be replaced with an object")


def _with(elements: list[Any], value: Any) -> list[Any]:
    added = value if isinstance(value, list) else [value]
    known = {_identity(element) for element in elements}
    return [*elements, *(element for element in added if _identity(element) not in known)]


def _remove(resource: dict[str, Any], target: PatchTarget, value: Any) -> None:
    if not target.path:
        raise ScimError(400, "remove requires a path", "noTarget")
    if target.path[0].lower() in READ_ONLY:
        return
    holder = _holder(resource, target.path)
    if holder is None:
        return
    key = key_in(holder, target.path[-1])
    found = holder.get(key)
    if target.chosen is not None and isinstance(found, list):
        _remove_chosen(holder, key, found, target)
    elif target.chosen is None and isinstance(found, list) and value:
        gone = {_identity(element) for element in (value if isinstance(value, list) else [value])}
        holder[key] = [element for element in found if _identity(element) not in gone]
    elif target.chosen is None:
        holder.pop(key, None)


def _remove_chosen(holder: dict[str, Any], key: str, found: list[Any], target: PatchTarget) -> None:
    chosen = [element for element in found if target.chosen is not None and target.chosen.matches(element)]
    if target.sub:
        for element in chosen:
            element.pop(key_in(element, target.sub), None)
    else:
        holder[key] = [element for element in found if element not in chosen]


def _identity(element: Any) -> str:
    """Identity of an element: two with one `value` are the same, whatever else is said of them."""
    return str(element.get("value", element)) if isinstance(element, Mapping) else str(element)
