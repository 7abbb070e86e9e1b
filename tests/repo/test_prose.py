"""The prose check finds the habits that it is made for, and the texts for users pass it."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _loaded() -> ModuleType:
    loader = SourceFileLoader("prose", str(ROOT / ".ci" / "prose"))
    spec = spec_from_loader("prose", loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules["prose"] = module
    loader.exec_module(module)
    return module


prose = _loaded()


def test_texts_for_users_pass() -> None:
    done = subprocess.run([ROOT / ".ci" / "prose"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "hits"),
    [
        ("a.md", "Whoever signs in is let through.\n", 2),
        ("a.md", "gate is told of the end.\n", 1),
        ("a.md", "```\nWhoever is told.\n```\nA user signs in.\n", 0),
        ("a.md", "Set `whom` to a name.\n", 0),
        ("a.html", "<p>{{ _('x') }} nobody is here now</p>\n", 1),
        ("a.yaml", "key: nobody  # somebody else sets it\n", 1),
        ("a.po", 'msgid "Nobody signs in"\nmsgstr "Nobody meldet sich an"\n', 1),
    ],
)
def test_a_hit_names_the_rule_and_the_better_word(name: str, text: str, hits: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    found = list(prose.hits_of(tmp_path / name))
    assert len(found) == hits
    assert all(": use " in hit for hit in found)


def test_user_documentation_names_commands_of_gate(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Run `manage.py rungate`.\n")
    assert len(list(prose.commands_of(tmp_path / "a.md"))) == 1
