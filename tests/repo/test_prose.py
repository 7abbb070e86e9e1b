"""Prose check (`.ci/prose`): it finds what it is for, and the tree passes it."""

import subprocess
from pathlib import Path

import pytest

from tests.support.children import ROOT
from tests.support.ci_scripts import load_ci_script

prose = load_ci_script("prose")


def test_tree_passes() -> None:
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
        ("a.py", '"""A client that is told of it."""\n', 1),
        ("a.py", "x = 1  # nobody reads it\n", 1),
        ("a.py", 'raise ValueError("somebody else uses this name")\n', 1),
        ("a.py", 'nobody = "whom"  # noqa: told\n', 0),
        ("a.py", '"""`nobody` is an account."""\n', 0),
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
