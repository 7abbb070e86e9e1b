"""Layout of the tree: the tests of each package are at the matching path, and files and functions stay small."""

import ast
import gc
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.source_trees import parsed

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateproject", "authenticate", "authorize", "databroker", "proxy", "config", "foundation")
SOURCES = sorted(
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if path.name != "__init__.py" and "migrations" not in path.parts and not path.name.endswith("_pb2.py")
)

# Class names that exist more than once, each with the reason.  This list may only shrink.
SHARED_NAMES = {
    "Command": "Django finds a command of manage.py by this name",
    "Meta": "Django's options of a model",
    "Route": "a setting's name, and the model whose name makes the address of the admin's page",
}


@cache
def trees() -> dict[Path, ast.Module]:
    """Parse the sources for the tests that need them, not in each process that collects tests."""
    made = {source: parsed((ROOT / source).read_text()) for source in SOURCES}
    gc.freeze()  # they stay to the end: no collection looks at them again
    return made


def test_every_package_has_its_tests_where_one_looks_for_them() -> None:
    """The path matches the package: under tests/integration if the package needs another program, else under tests/unit."""
    tested = {test.parent.relative_to(ROOT / "tests" / kind) for kind in ("unit", "integration") for test in _tests(kind)}
    formats = Path("gateproject/formats/en")  # what the admin shows is tested
    assert sorted({source.parent for source in SOURCES} - tested - {formats}) == []


def _tests(kind: str) -> Iterator[Path]:
    return (ROOT / "tests" / kind).rglob("test_*.py")


def test_every_module_has_a_docstring_and_a_maximum_length() -> None:
    assert [str(source) for source in SOURCES if not _docstring_lines(source)] == [], "has no docstring"
    assert [str(source) for source in SOURCES if _docstring_lines(source) > 12] == [], "its docstring is longer than 12 lines"
    assert [str(source) for source in SOURCES if len((ROOT / source).read_text().splitlines()) > 400] == [], "is longer than 400 lines"


def _docstring_lines(source: Path) -> int:
    return len((ast.get_docstring(trees()[source]) or "").splitlines())


def test_functions_stay_within_fifty_lines() -> None:
    too_long = [
        f"{source}:{node.lineno} {node.name}"
        for source in SOURCES
        for node in ast.walk(trees()[source])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 50
    ]
    assert too_long == []


def test_a_class_name_stands_once() -> None:
    """Names that differ only in a leading underscore or in case count as equal."""
    places: dict[str, list[str]] = {}
    for source in SOURCES:
        for node in ast.walk(trees()[source]):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_").lower(), []).append(f"{source}:{node.lineno} {node.name}")
    duplicates = {name: found for name, found in places.items() if len(found) > 1}
    allowed = {name.lower() for name in SHARED_NAMES}
    assert {name: found for name, found in duplicates.items() if name not in allowed} == {}
    assert sorted(allowed - duplicates.keys()) == [], "is listed in NAMED_TWICE needlessly"


def test_a_collection_in_the_middle_of_parsing_changes_nothing() -> None:
    class Parses:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            ast.parse("a = 1")

    source, before = Path(__file__).read_text(), gc.get_threshold()
    gc.set_threshold(1)
    try:
        Parses()
        assert parsed(source).body
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()


def test_every_requirement_has_a_reason() -> None:
    for name in ("requirements.in", "requirements-demo.in", "requirements-dev.in"):
        for line in (ROOT / name).read_text().splitlines():
            if line and not line.startswith(("#", "-c")):
                assert "#" in line, f"{name}: {line}"


def test_the_import_contracts_are_in_place() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert {package for layer in layers for package in layer.split(" | ")} == set(PACKAGES)
