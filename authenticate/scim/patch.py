"""SCIM PATCH operations (RFC 7644 3.5.2), including the dialects of Entra ID and Okta.

Entra ID sends `Add` and `Replace`, "True" and "False", dotted keys in a value, and removes members by a list in `value`.
Okta replaces without a path and includes the id.  No path, or the core schema as path, means the resource itself.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authenticate.scim import scim_filter
from authenticate.scim.attribute_paths import Path, find_key, iter_attributes, parse_path
from authenticate.scim.scim_errors import ScimError, invalid
from authenticate.scim.scim_filter import ScimFilter

MAX_OPERATIONS = 1000
# Assigned by the server.  Clients that send them intend no change.
READ_ONLY = frozenset({"id", "meta", "schemas", "groups"})
_PATH = re.compile(r"(?P<name>[A-Za-z$][\w$:.-]*)(?:\[(?P<filter>.+)\](?:\.(?P<sub>[A-Za-z$][\w$-]*))?)?", re.DOTALL)
_SIMPLE_EQ = re.compile(r'\s*([A-Za-z]\w*)\s+eq\s+"([^"\\]*)"\s*', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PatchTarget:
    """Parsed path.

    `filter` selects elements of a list, `template` is the element to create if none matches, `sub` is an attribute of each element.
    """

    path: Path
    filter: ScimFilter | None
    template: Mapping[str, Any]
    sub: str


_ROOT = PatchTarget((), None, {}, "")


def apply_patch(resource: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a changed copy of the resource.  Raises ScimError if any operation fails."""
    operations = request.get(find_key(request, "Operations"))
    if not isinstance(operations, list) or not 0 < len(operations) <= MAX_OPERATIONS:
        raise ScimError(400, f"Operations must be a list of 1 to {MAX_OPERATIONS}", "invalidSyntax")
    # Stored data is frozen, and so is a deep copy of it.
    changed: dict[str, Any] = json.loads(json.dumps(resource))
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise ScimError(400, "an operation must be an object", "invalidSyntax")
        _apply(changed, operation)
    return changed


def _apply(resource: dict[str, Any], operation: Mapping[str, Any]) -> None:
    op, path, value = (operation.get(find_key(operation, name)) for name in ("op", "path", "value"))
    op = op.lower() if isinstance(op, str) else ""
    if op not in ("add", "replace", "remove"):
        raise ScimError(400, "op must be add, replace or remove", "invalidSyntax")
    if path is not None and not isinstance(path, str):
        raise ScimError(400, "path must be text", "invalidPath")
    target = _parse_target(path) if path else _ROOT
    if op == "remove":
        _remove(resource, target, value)
    else:
        _set(resource, target, value, is_addition=op == "add")


def _parse_target(text: str) -> PatchTarget:
    match = _PATH.fullmatch(text.strip())
    if match is None or len(text) > scim_filter.MAX_FILTER_LENGTH:
        raise ScimError(400, "the path can't be read", "invalidPath")
    path = parse_path(match["name"])
    if not all(path) or len(path) > 3:
        raise ScimError(400, "the path can't be read", "invalidPath")
    if match["filter"] is not None and not path:
        raise ScimError(400, "the path can't be read", "invalidPath")
    if match["filter"] is None:
        return PatchTarget(path, None, {}, "")
    simple = _SIMPLE_EQ.fullmatch(match["filter"])
    template = {simple[1]: simple[2]} if simple else {}
    return PatchTarget(path, scim_filter.parse_filter(match["filter"]), template, match["sub"] or "")


def _parent(resource: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """Return the object that contains the last step of the path, or None."""
    node = resource
    for step in path[:-1]:
        if (found := node.get(find_key(node, step))) is None:
            return None
        node = _require_object(found, step)
    return node


def _ensure_parent(resource: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the same object as `_parent`, and create missing objects on the way."""
    node = resource
    for step in path[:-1]:
        key = find_key(node, step)
        if node.get(key) is None:
            node[key] = {}
        node = _require_object(node[key], step)
    return node


def _require_object(found: Any, step: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ScimError(400, f"{step} has no sub-attributes", "invalidPath")
    return found


def _set(resource: dict[str, Any], target: PatchTarget, value: Any, *, is_addition: bool) -> None:
    if not target.path:
        if not isinstance(value, Mapping):
            raise invalid("without a path, value must be an object")
        for name, member in iter_attributes(value):
            _set(resource, _parse_target(name), member, is_addition=is_addition)
        return
    if target.path[0].lower() in READ_ONLY:
        return
    parent = _ensure_parent(resource, target.path)
    key = find_key(parent, target.path[-1])
    if target.filter is not None:
        _set_elements(parent, key, target, value)
    elif is_addition and isinstance(parent.get(key), list):
        parent[key] = _append_unique(parent[key], value)
    elif isinstance(parent.get(key), dict) and isinstance(value, Mapping):
        parent[key] = {**parent[key], **value}
    else:
        parent[key] = value


def _set_elements(parent: dict[str, Any], key: str, target: PatchTarget, value: Any) -> None:
    elements = parent.setdefault(key, [])
    if not isinstance(elements, list) or target.filter is None:
        raise ScimError(400, f"{key} is not a list", "invalidPath")
    matches = [element for element in elements if isinstance(element, dict) and target.filter.matches(element)]
    if not matches:
        if not target.template:
            raise ScimError(400, "no element of the list matches", "noTarget")
        # Entra ID replaces the work address even of a user without one.
        matches = [dict(target.template)]
        elements += matches
    for element in matches:
        if target.sub:
            element[find_key(element, target.sub)] = value
        elif isinstance(value, Mapping):
            element.update(value)
        else:
            raise invalid("an element of a list must be replaced with an object")


def _append_unique(elements: list[Any], value: Any) -> list[Any]:
    added = value if isinstance(value, list) else [value]
    known = {_identity(element) for element in elements}
    return [*elements, *(element for element in added if _identity(element) not in known)]


def _remove(resource: dict[str, Any], target: PatchTarget, value: Any) -> None:
    if not target.path:
        raise ScimError(400, "remove requires a path", "noTarget")
    if target.path[0].lower() in READ_ONLY:
        return
    parent = _parent(resource, target.path)
    if parent is None:
        return
    key = find_key(parent, target.path[-1])
    found = parent.get(key)
    if target.filter is not None and isinstance(found, list):
        _remove_elements(parent, key, found, target)
    elif target.filter is None and isinstance(found, list) and value:
        removed = {_identity(element) for element in (value if isinstance(value, list) else [value])}
        parent[key] = [element for element in found if _identity(element) not in removed]
    elif target.filter is None:
        parent.pop(key, None)


def _remove_elements(parent: dict[str, Any], key: str, found: list[Any], target: PatchTarget) -> None:
    matches = [element for element in found if target.filter is not None and target.filter.matches(element)]
    if target.sub:
        for element in matches:
            element.pop(find_key(element, target.sub), None)
    else:
        parent[key] = [element for element in found if element not in matches]


def _identity(element: Any) -> str:
    """Return the identity of a list element: two with the same `value` are the same."""
    return str(element.get("value", element)) if isinstance(element, Mapping) else str(element)
