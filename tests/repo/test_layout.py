"""The shape of the tree is a promise, too: every module is tested where one looks for it, and files stay small."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateproject", "authenticate", "authorize", "databroker", "proxy")
SOURCES = sorted(
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if path.name != "__init__.py" and "migrations" not in path.parts and not path.name.endswith("_pb2.py")
)

# Modules without a test file of their own, each with where it is tested instead.  This list may only shrink.
TESTED_ELSEWHERE = {
    "gateproject/urls.py": "tests/integration",
    "gateproject/formats/en/formats.py": "tests/unit/databroker/test_admin.py",
    "gateproject/asgi.py": "tests/integration: needs a configuration at import",
    "gateproject/errors.py": "wherever one is raised",
    "gateproject/management/commands/rungate.py": "tests/integration",
    "gateproject/management/commands/demo.py": "tests/integration/test_demo_in_browser.py",
    "databroker/store/base.py": "tests/contract/test_stores.py",
    "gateproject/admin_site.py": "tests/integration/test_admin.py",
    "databroker/apps.py": "a name",
    "proxy/urls.py": "tests/unit/proxy/test_views.py",
    "authenticate/directory/base.py": "tests/unit/authenticate/directory/test_file.py",
    "authenticate/providers/base.py": "tests/unit/authenticate/providers/test_oidc.py",
    "authenticate/views/answers.py": "tests/unit/authenticate/views",
}

LONG_FILES: dict[str, str] = {}


def test_path(source: Path) -> Path:
    return ROOT / "tests" / "unit" / source.parent / f"test_{source.name}"


test_path.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_every_module_has_its_test_where_one_looks_for_it(source: Path) -> None:
    is_listed = str(source) in TESTED_ELSEWHERE
    assert test_path(source).exists() != is_listed, f"{test_path(source).relative_to(ROOT)} is missing, or {source} is listed needlessly"


def test_the_list_of_exceptions_names_only_what_exists() -> None:
    assert [name for name in TESTED_ELSEWHERE if Path(name) not in SOURCES] == []


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_files_stay_within_three_hundred_lines(source: Path) -> None:
    lines = len((ROOT / source).read_text().splitlines())
    assert lines <= 300 or str(source) in LONG_FILES, f"{source} has {lines} lines"


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_every_module_says_what_question_it_answers(source: Path) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / source).read_text()))
    assert docstring, f"{source} has no module docstring"
    assert len(docstring.splitlines()) <= 12


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_functions_stay_within_fifty_lines(source: Path) -> None:
    tree = ast.parse((ROOT / source).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    too_long = [node.name for node in functions if (node.end_lineno or 0) - node.lineno + 1 > 50]
    assert too_long == []


def test_every_requirement_says_why_it_is_there() -> None:
    for name in ("requirements.in", "requirements-demo.in", "requirements-dev.in"):
        for line in (ROOT / name).read_text().splitlines():
            if line and not line.startswith(("#", "-c")):
                assert "#" in line, f"{name}: {line}"


def test_the_import_contracts_are_in_place() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert len(contracts) >= 10
