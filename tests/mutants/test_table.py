"""The table of mutants can't rot: every text it takes away is still there, once, and every test it names exists."""

import importlib
import re

import pytest

from tests.mutants.mutant import ROOT, Door, Mutant
from tests.mutants.table import MUTANTS

each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@each_mutant
def test_the_text_that_is_taken_away_is_there_exactly_once(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    changed = mutant.applied_to(text)
    assert changed != text
    compile(changed, mutant.file, "exec")


@each_mutant
def test_the_tests_that_must_notice_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / "tests" / path).is_file(), test
        if name:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE), test


def test_no_door_and_no_chapter_is_forgotten() -> None:
    chapters = [path.stem for path in (ROOT / "tests/mutants").glob("*.py") if "\nDOORS = " in path.read_text()]
    for name in chapters:
        chapter = importlib.import_module(f"tests.mutants.{name}")
        doors = [each for each in vars(chapter).values() if isinstance(each, Door)]
        assert all(any(each is known for known in chapter.DOORS) for each in doors), name
        assert all(mutant in MUTANTS for each in doors for mutant in each.mutants), name
    assert len(chapters) > 10


def test_each_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_there_are_as_many_mutants_as_were_promised() -> None:
    assert len(MUTANTS) >= 50


def test_a_text_that_occurs_twice_is_a_mistake_of_the_table() -> None:
    mutant = Mutant("sample", "sample.py", "a", "b", ("sample",))
    assert mutant.applied_to("xay") == "xby"
    for text in ("", "aa"):
        with pytest.raises(ValueError, match="occurs"):
            mutant.applied_to(text)
