"""The table of mutants can't rot: every place it names is there, means something else without its defence, and every test exists."""

import re
from pathlib import Path
from types import ModuleType

from tests.mutants import by_hand
from tests.mutants.mutant import MUTANTS, ROOT, Mutant, ScriptMutant
from tests.mutants.operations import place_of


def test_each_mutant_can_be_applied() -> None:
    sources = {file: (ROOT / file).read_text() for file in {mutant.file for mutant in MUTANTS}}
    assert [problem for mutant in MUTANTS if (problem := _find_problem(mutant, sources[mutant.file]))] == []


def _find_problem(mutant: Mutant | ScriptMutant, source: str) -> str:
    try:
        if isinstance(mutant, ScriptMutant):
            mutant.applied_to(source)
        else:
            tree, (outermost, *_) = mutant.tree(source), mutant.where.split(".")
            compile(place_of(tree, outermost) if outermost else tree, mutant.file, "exec")
    except (ValueError, SyntaxError) as error:
        return f"{mutant.file}: {error}"
    return ""


def test_the_tests_that_must_notice_exist() -> None:
    assert [f"{mutant.name}: names no test" for mutant in MUTANTS if not mutant.tests] == []
    named = {test for mutant in MUTANTS for test in mutant.tests}
    assert sorted(test for test in named if not _is_there(*test.partition("::")[::2])) == []


def _is_there(path: str, name: str) -> bool:
    file = ROOT / "tests" / path
    return file.is_file() and (not name or re.search(rf"^(async )?def {name}\(", file.read_text(), re.MULTILINE) is not None)


def test_every_file_of_mutants_fills_the_table() -> None:
    files = {path.stem for path in Path(by_hand.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == {name for name, each in vars(by_hand).items() if isinstance(each, ModuleType)}


def test_each_mutant_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
