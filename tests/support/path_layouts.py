"""Typical layouts of routes, and who is allowed for which plain path, determined by hand."""

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Written:
    """A route: one condition, public or not, and the paths that its policy denies."""

    condition: tuple[str, str]
    is_open: bool
    denied: dict[str, str] = field(default_factory=dict)  # operator: operand

    def keys(self) -> dict[str, Any]:
        """Return the keys of the configuration, without the upstream and the allowed users."""
        name, value = self.condition
        who = {"allow_public_unauthenticated_access": True} if self.is_open else {}
        policy = {"policy": [{"deny": {"http_path": self.denied}}]} if self.denied else {}
        return {name: value, **who, **policy}

    def has(self, path: str) -> bool:
        name, value = self.condition
        return path == value if name == "path" else path.startswith(value) if name == "prefix" else bool(re.fullmatch(value, path))

    def denies(self, path: str) -> bool:
        return any(_fits(operator, operand, path) for operator, operand in self.denied.items())


def _fits(operator: str, operand: str, path: str) -> bool:
    plain = operator.removeprefix("not_")
    fits = {
        "is": path == operand,
        "starts_with": path.startswith(operand),
        "ends_with": path.endswith(operand),
        "contains": operand in path,
        "matches": re.fullmatch(operand, path) is not None,
    }
    return fits[plain] is (plain == operator)


def open_to_all(layout: list[Written], path: str) -> bool:
    found = next((route for route in layout if route.has(path)), None)
    return found is not None and found.is_open and not found.denies(path)


PUBLIC, PROTECTED = True, False
EVERYTHING, STATIC = ("prefix", "/"), ("regex", r".*\.(css|js|png)")
LAYOUTS = {
    "exact before a public prefix": [Written(("path", "/users"), PROTECTED), Written(EVERYTHING, PUBLIC)],
    "prefix before a public one": [Written(("prefix", "/admin"), PROTECTED), Written(EVERYTHING, PUBLIC)],
    "public exact before a prefix": [Written(("path", "/users"), PUBLIC), Written(EVERYTHING, PROTECTED)],
    "public prefix before all": [Written(("prefix", "/public/"), PUBLIC), Written(EVERYTHING, PROTECTED)],
    "static files are public": [Written(STATIC, PUBLIC), Written(EVERYTHING, PROTECTED)],
    "one segment is public": [Written(("regex", "/[^/]*"), PUBLIC), Written(EVERYTHING, PROTECTED)],
    "one segment, and nothing else": [Written(("regex", "/[^/]*"), PUBLIC)],
    "a protected expression": [Written(("regex", "/admin(/.*)?"), PROTECTED), Written(EVERYTHING, PUBLIC)],
    "no parameters": [Written(("regex", "/[^;]*"), PROTECTED), Written(EVERYTHING, PUBLIC)],
    "public below protected below public": [
        Written(("prefix", "/admin/public/"), PUBLIC),
        Written(("prefix", "/admin/"), PROTECTED),
        Written(EVERYTHING, PUBLIC),
    ],
    "deny is": [Written(EVERYTHING, PUBLIC, {"is": "/users"})],
    "deny matches": [Written(EVERYTHING, PUBLIC, {"matches": "/admin(/.*)?"})],
    "deny starts_with": [Written(EVERYTHING, PUBLIC, {"starts_with": "/admin"})],
    "deny contains": [Written(EVERYTHING, PUBLIC, {"contains": "/users"})],
    "deny ends_with": [Written(EVERYTHING, PUBLIC, {"ends_with": "/users"})],
    "deny not_matches": [Written(EVERYTHING, PUBLIC, {"not_matches": r".*\.(css|js|png)"})],
    "deny not_starts_with": [Written(EVERYTHING, PUBLIC, {"not_starts_with": "/public/"})],
    "deny not_is": [Written(EVERYTHING, PUBLIC, {"not_is": "/users"})],
    "deny not_ends_with": [Written(EVERYTHING, PUBLIC, {"not_ends_with": ".css"})],
}
