"""The shape of the tree is a promise, too: every module is tested where one looks for it, and files stay small."""

import ast
import gc
import tomllib
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

# Modules without a test file of their own, each with where it is tested instead.  This list may only shrink.
TESTED_ELSEWHERE = {
    "gateproject/urls.py": "tests/integration",
    "gateproject/formats/en/formats.py": "tests/unit/databroker/test_admin.py",
    "gateproject/asgi.py": "tests/integration: needs a configuration at import",
    "foundation/errors.py": "wherever one is raised",
    "gateproject/management/commands/rungate.py": "tests/integration",
    "gateproject/management/commands/demo.py": "tests/integration/test_demo_in_browser.py",
    "gateproject/management/commands/checkbroker.py": "tests/integration/test_checkbroker.py",
    "gateproject/management/commands/endsessions.py": "tests/integration/test_endsessions.py",
    "databroker/tables/check.py": "tests/integration/test_checkbroker.py",
    "databroker/store/base.py": "tests/contract/test_stores.py",
    "databroker/apps.py": "a name",
    "foundation/crypto/settings.py": "types alone",
    "foundation/rpc/settings.py": "types alone",
    "foundation/telemetry/tracing/settings.py": "types alone",
    "proxy/urls.py": "tests/unit/proxy/views/test_route_host.py",
    "authenticate/directory/base.py": "tests/unit/authenticate/directory/test_file.py",
    "authenticate/provider/kinds/base.py": "tests/unit/authenticate/provider/kinds/test_oidc.py",
    "authenticate/views/answers.py": "tests/unit/authenticate/views",
}

# Class names that stand more than once, each with the reason.  This list may only shrink.
NAMED_TWICE = {
    "Command": "Django finds a command of manage.py by this name",
    "Meta": "Django's options of a model",
    "Route": "a setting's name, and the model whose name makes the address of the admin's page",
}


@cache
def trees() -> dict[Path, ast.Module]:
    """Parsed for the tests that look at them, not by each process that collects the tests."""
    made = {source: parsed((ROOT / source).read_text()) for source in SOURCES}
    gc.freeze()  # they stay to the end: no collection looks at them again
    return made


def has_test(source: Path) -> bool:
    """At its own path: under tests/integration what means nothing without another program, else under tests/unit, which needs none."""
    return any((ROOT / "tests" / kind / source.parent / f"test_{source.name}").exists() for kind in ("unit", "integration"))


def test_every_module_has_its_test_where_one_looks_for_it() -> None:
    missing = [str(source) for source in SOURCES if not has_test(source) and str(source) not in TESTED_ELSEWHERE]
    needless = [name for name in TESTED_ELSEWHERE if Path(name) not in SOURCES or has_test(Path(name))]
    assert missing == [], "has no test file of its name under tests/unit or tests/integration"
    assert needless == [], "is listed in TESTED_ELSEWHERE needlessly"


def test_every_module_says_first_what_it_is_and_is_short_enough_to_read() -> None:
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
    """A leading underscore and capitals make no other name."""
    places: dict[str, list[str]] = {}
    for source in SOURCES:
        for node in ast.walk(trees()[source]):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_").lower(), []).append(f"{source}:{node.lineno} {node.name}")
    twice = {name: found for name, found in places.items() if len(found) > 1}
    allowed = {name.lower() for name in NAMED_TWICE}
    assert {name: found for name, found in twice.items() if name not in allowed} == {}
    assert sorted(allowed - twice.keys()) == [], "is listed in NAMED_TWICE needlessly"


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


def test_every_requirement_says_why_it_is_there() -> None:
    for name in ("requirements.in", "requirements-demo.in", "requirements-dev.in"):
        for line in (ROOT / name).read_text().splitlines():
            if line and not line.startswith(("#", "-c")):
                assert "#" in line, f"{name}: {line}"


def test_the_import_contracts_are_in_place() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert {package for layer in layers for package in layer.split(" | ")} == set(PACKAGES)
