"""Identifier lint (`.ci/names`): each banned word is found, each exception is accepted, and the tree passes."""

import subprocess

import pytest

from tests.support.children import ROOT
from tests.support.ci_scripts import load_ci_script

names = load_ci_script("names")


def test_tree_passes() -> None:
    done = subprocess.run([ROOT / ".ci" / "names"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("word", sorted(names.STEMS))
@pytest.mark.parametrize(
    "source",
    [
        "def get_{}(x): ...",
        "class Get{}: ...",
        "def f(get_{}): ...",
        "get_{} = 1",
        "class A:\n    def f(self): self.get_{} = 1",
        "MAX_{} = 1",
    ],
)
def test_banned_word_is_found_with_a_better_word(word: str, source: str) -> None:
    name = word.capitalize() if "class Get" in source else word.upper() if "MAX" in source else word
    [hit] = names.hits_in(source.format(name), "tests/example.py")
    assert f"`{word}`" in hit
    assert names.STEMS[word] in hit


@pytest.mark.parametrize("word", sorted(names.STEMS))
def test_module_name_is_checked(word: str) -> None:
    assert [hit for hit in names.hits_in("", f"tests/{word}_value.py") if f"`{word}`" in hit]


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def {}(self) -> None: ...",
        "class A:\n    async def {}(self) -> None: ...",
    ],
)
@pytest.mark.parametrize("name", sorted({*names.EXCEPTIONS, "on_value", "__init__"}))
def test_name_of_a_library_is_accepted(name: str, source: str) -> None:
    assert not list(names.hits_in(source.format(name), "proxy/example.py"))


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def user(x) -> None: ...", 1),
        ("class A:\n    def _user(self) -> None: ...", 1),
        ("class A:\n    if True:\n        async def user(self) -> None: ...", 1),
        ("def add_user(x) -> None: ...", 0),
        ("def _add_user(x) -> None: ...", 0),
        ("def user(x) -> int: ...", 0),
        ("def add_users() -> None:\n    def user() -> None: ...", 0),
    ],
)
def test_function_with_an_effect_begins_with_a_verb(source: str, count: int) -> None:
    hits = list(names.hits_in(source, "proxy/example.py"))
    assert len(hits) == count
    assert all("begins with a verb" in hit for hit in hits)
    assert not list(names.hits_in(source, "tests/example.py"))
