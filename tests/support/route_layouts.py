"""Typical layouts of routes, and who is allowed for which plain path, determined by hand."""

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LayoutRoute:
    """A route: one condition, public or not, and the paths that its policy denies."""

    condition: tuple[str, str]
    is_open: bool
    denied: dict[str, str] = field(default_factory=dict)  # operator: operand

    def keys(self) -> dict[str, Any]:
        """Return the keys of the configuration, without the upstream and the allowed users."""
        name, value = self.condition
        access = {"allow_public_unauthenticated_access": True} if self.is_open else {}
        policy = {"policy": [{"deny": {"http_path": self.denied}}]} if self.denied else {}
        return {name: value, **access, **policy}

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


def open_to_all(layout: list[LayoutRoute], path: str) -> bool:
    found = next((route for route in layout if route.has(path)), None)
    return found is not None and found.is_open and not found.denies(path)


PUBLIC, PROTECTED = True, False
EVERYTHING, STATIC = ("prefix", "/"), ("regex", r".*\.(css|js|png)")
LAYOUTS = {
    "exact before a public prefix": [LayoutRoute(("path", "/users"), PROTECTED), LayoutRoute(EVERYTHING, PUBLIC)],
    "prefix before a public one": [LayoutRoute(("prefix", "/admin"), PROTECTED), LayoutRoute(EVERYTHING, PUBLIC)],
    "public exact before a prefix": [LayoutRoute(("path", "/users"), PUBLIC), LayoutRoute(EVERYTHING, PROTECTED)],
    "public prefix before all": [LayoutRoute(("prefix", "/public/"), PUBLIC), LayoutRoute(EVERYTHING, PROTECTED)],
    "static files are public": [LayoutRoute(STATIC, PUBLIC), LayoutRoute(EVERYTHING, PROTECTED)],
    "one segment is public": [LayoutRoute(("regex", "/[^/]*"), PUBLIC), LayoutRoute(EVERYTHING, PROTECTED)],
    "one segment, and nothing else": [LayoutRoute(("regex", "/[^/]*"), PUBLIC)],
    "a protected expression": [LayoutRoute(("regex", "/admin(/.*)?"), PROTECTED), LayoutRoute(EVERYTHING, PUBLIC)],
    "no parameters": [LayoutRoute(("regex", "/[^;]*"), PROTECTED), LayoutRoute(EVERYTHING, PUBLIC)],
    "public below protected below public": [
        LayoutRoute(("prefix", "/admin/public/"), PUBLIC),
        LayoutRoute(("prefix", "/admin/"), PROTECTED),
        LayoutRoute(EVERYTHING, PUBLIC),
    ],
    "deny is": [LayoutRoute(EVERYTHING, PUBLIC, {"is": "/users"})],
    "deny matches": [LayoutRoute(EVERYTHING, PUBLIC, {"matches": "/admin(/.*)?"})],
    "deny starts_with": [LayoutRoute(EVERYTHING, PUBLIC, {"starts_with": "/admin"})],
    "deny contains": [LayoutRoute(EVERYTHING, PUBLIC, {"contains": "/users"})],
    "deny ends_with": [LayoutRoute(EVERYTHING, PUBLIC, {"ends_with": "/users"})],
    "deny not_matches": [LayoutRoute(EVERYTHING, PUBLIC, {"not_matches": r".*\.(css|js|png)"})],
    "deny not_starts_with": [LayoutRoute(EVERYTHING, PUBLIC, {"not_starts_with": "/public/"})],
    "deny not_is": [LayoutRoute(EVERYTHING, PUBLIC, {"not_is": "/users"})],
    "deny not_ends_with": [LayoutRoute(EVERYTHING, PUBLIC, {"not_ends_with": ".css"})],
}
