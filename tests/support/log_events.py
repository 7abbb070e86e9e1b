"""Log events of gate, read from its source."""

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.support.children import ROOT
from tests.support.source_trees import parsed

PACKAGES = ("authenticate", "authorize", "config", "databroker", "foundation", "gateproject", "proxy")
LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "critical": "critical", "exception": "error"}


class LogEvent(NamedTuple):
    name: str
    level: str  # empty if the level depends on a value


class UnnamedEvent(Exception):
    """A log call whose event is not a literal, so that it can't be listed or searched for."""


def log_events(packages: tuple[str, ...] = PACKAGES) -> set[LogEvent]:
    """Return each event that the packages log.  Raises UnnamedEvent."""
    files = chain.from_iterable((ROOT / package).rglob("*.py") for package in packages)
    return {event for file in files for event in events_in(file.read_text(), str(file.relative_to(ROOT)))}


def events_in(source: str, file: str) -> Iterator[LogEvent]:
    yield from _Module(parsed(source), file).events()


class _Module:
    def __init__(self, tree: ast.Module, file: str) -> None:
        self._file = file
        self._nodes = list(ast.walk(tree))
        self._constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant)
        }

    def events(self) -> Iterator[LogEvent]:
        yield from self._direct_calls()
        for function in self._nodes:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._calls_by_alias(function)
        for node in self._nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "BoundedLog":
                levels = [keyword.value for keyword in node.keywords if keyword.arg == "level"]
                yield from self._named(node.args[0], ast.literal_eval(levels[0]) if levels else "warning")
            elif isinstance(node, ast.Dict):  # a line written without the logger
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "event":
                        yield from self._named(value, "")

    def _direct_calls(self) -> Iterator[LogEvent]:
        for node in self._nodes:
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and _is_log(node.func.value) and node.func.attr in LEVELS:
                yield from self._named(node.args[0], LEVELS[node.func.attr])
            elif isinstance(node.func, ast.Call) and _is_getattr_of_log(node.func) and not isinstance(node.args[0], ast.Attribute):
                yield from self._named(node.args[0], "")

    def _calls_by_alias(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[LogEvent]:
        """Return the events of `log_event = log.warning if ... else log.error; log_event("...")`."""
        inner = list(ast.walk(function))
        aliases = {
            target.id
            for node in inner
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.IfExp)
            and all(isinstance(way, ast.Attribute) and _is_log(way.value) for way in (node.value.body, node.value.orelse))
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in inner:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in aliases:
                yield from self._named(node.args[0], "")

    def _named(self, node: ast.expr, level: str) -> Iterator[LogEvent]:
        if isinstance(node, ast.Name):
            yield from self._variable(node, level)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield LogEvent(node.value, level)
        else:
            raise UnnamedEvent(f"{self._file}:{node.lineno}: {ast.unparse(node)}")

    def _variable(self, node: ast.Name, level: str) -> Iterator[LogEvent]:
        """A constant of the module, or a parameter whose values are literals at each call in the module."""
        if node.id in self._constants:
            yield from self._named(self._constants[node.id], level)
            return
        functions = [
            function
            for function in self._nodes
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(inner is node for inner in ast.walk(function))
        ]
        names = [argument.arg for argument in functions[-1].args.args] if functions else []
        if node.id not in names:
            raise UnnamedEvent(f"{self._file}:{node.lineno}: {node.id}")
        for call in self._nodes:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == functions[-1].name:
                yield from self._named(call.args[names.index(node.id)], "")


def _is_log(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "log"


def _is_getattr_of_log(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "getattr" and bool(node.args) and _is_log(node.args[0])


def listed_events(page: Path) -> list[LogEvent]:
    """Return the events of a page's tables: a row begins with the event in backticks, and its second cell is the level."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.read_text().splitlines() if line.startswith("| `")]
    return [LogEvent(row[0].strip("`"), row[1]) for row in rows]
