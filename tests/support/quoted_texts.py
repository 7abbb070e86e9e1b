"""Texts of the product that tests quote, so that a change of wording would need changes in several places."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.children import ROOT
from tests.support.log_events import PACKAGES, log_events
from tests.support.source_trees import parsed

MIN_TERMS = 5


def quotes_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and first words of each string of a test that repeats five words of the product in a row.

    The name of a log event is not a quotation.
    """
    for line, text in _strings(source):
        quoted = next((run for run in _runs(text.replace("\\", "")) if run in _product()), None)
        if quoted is not None and text not in _event_names():
            yield line, quoted


def _strings(source: str) -> Iterator[tuple[int, str]]:
    tree = parsed(source)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.lineno, node.value


def _runs(text: str) -> Iterator[str]:
    terms = text.split()
    for start in range(len(terms) - MIN_TERMS + 1):
        yield " ".join(terms[start : start + MIN_TERMS])


@cache
def _product() -> frozenset[str]:
    return frozenset(run for package in PACKAGES for file in (ROOT / package).rglob("*") for run in _runs_of(file))


def _runs_of(file: Path) -> Iterator[str]:
    if file.suffix == ".html":
        yield from _runs(file.read_text())
    elif file.suffix == ".py":
        for _, text in _strings(file.read_text()):
            yield from _runs(text)


@cache
def _event_names() -> frozenset[str]:
    return frozenset(event.name for event in log_events())
