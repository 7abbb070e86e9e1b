"""Texts of the product name the command `gate`, because an installation has no manage.py."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repo.test_layout import ROOT
from tests.support.source_trees import parsed

PACKAGES = ("authenticate", "authorize", "config", "databroker", "foundation", "gateproject", "proxy")
# The command line page has a table of both names, for a checkout.
ALLOWED = {"gateproject/management/cli_docs.py"}


def texts_of(file: Path) -> Iterator[str]:
    """Return the texts of a file that users may see: Python strings except docstrings, and complete catalogues and templates."""
    content = file.read_text()
    if file.suffix != ".py":
        yield content
        return
    tree = parsed(content)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    yield from (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    )


def test_visible_and_hidden_texts(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text('"""Doc."""\n\n\ndef a() -> str:\n    """Doc."""\n    return f"run {1} now"\n')
    assert set(texts_of(file)) == {"run ", " now"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_text_of_the_installed_product_names_manage_py(package: str) -> None:
    files = [file for suffix in ("py", "html", "txt", "js", "po", "lua", "yaml") for file in (ROOT / package).rglob(f"*.{suffix}")]
    named = {str(file.relative_to(ROOT)) for file in files if any("manage.py" in text for text in texts_of(file))}
    assert named - ALLOWED == set()
