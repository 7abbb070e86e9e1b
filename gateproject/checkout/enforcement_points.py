"""Reference page of enforcement points (docs/reference/enforcement-points.md).

It is generated from comments of the form `# enforcement-point: SECTION: RULE`. Such a comment precedes the function or class that is
the only entry point for the rule.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateproject", "proxy", "authenticate", "authorize", "databroker", "config", "foundation")
SECTIONS = (
    "Requests",
    "Identity",
    "Authorization",
    "Upstream requests",
    "Sign-in and sign-out",
    "Authorization server",
    "Pages",
    "Directory",
    "Services and certificates",
)
_MARKER = re.compile(r"^ *# enforcement-point: ([^:]+): (.+)$", re.MULTILINE)
_HEAD = """# Enforcement points

This page is generated from `# enforcement-point:` comments in the code by `make docs`; do not edit it.

gate enforces each security rule in one function or class, the only entry point for the rule. To review a rule, read the code
named here, then its callers. To change a rule, change it here and nowhere else.
"""


class EnforcementPoint(NamedTuple):
    """`path` is relative to the root of the repository; `symbol` is the qualified name of the function or class."""

    section: str
    rule: str
    path: str
    symbol: str


def enforcement_points() -> list[EnforcementPoint]:
    """Return all enforcement points, in order of path and line."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return [point for path in paths for point in points_in(path.read_text(), str(path.relative_to(ROOT)))]


def points_in(source: str, path: str) -> Iterator[EnforcementPoint]:
    """Yield the enforcement points of a module. Raises ValueError if no function or class follows a marker."""
    markers = list(_MARKER.finditer(source))
    starts = dict(_definitions(ast.parse(source))) if markers else {}
    for marker in markers:
        line = source.count("\n", 0, marker.start()) + 2
        if marker[1] not in SECTIONS or line not in starts:
            raise ValueError(f"{path}:{line - 1}: an enforcement point needs a section of {SECTIONS} and a function or class after it")
        yield EnforcementPoint(marker[1], marker[2], path, starts[line])


def _definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[int, str]]:
    """Yield the first line, decorators included, and the qualified name of each function and class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield min([child.lineno, *(each.lineno for each in child.decorator_list)]), prefix + child.name
            yield from _definitions(child, f"{prefix}{child.name}.")


def enforcement_points_page(points: Iterable[EnforcementPoint]) -> str:
    sections = defaultdict(list)
    for point in points:
        sections[point.section].append(f"| {point.rule} | `{point.path}` `{point.symbol}` |\n")
    tables = (f"\n## {section}\n\n| Rule | Enforced by |\n|---|---|\n{''.join(sorted(sections[section]))}" for section in SECTIONS)
    return _HEAD + "".join(tables)
