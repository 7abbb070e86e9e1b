"""The generated mutants of a sample, and what the sample does with each of them."""

import builtins
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mutants import points
from tests.mutants.generator import POINTS, instrument
from tests.mutants.guards import GUARDS, MORE_TESTS, ROOT, WORKED_THROUGH, guard_modules, guard_tests
from tests.mutants.ignored import IGNORED
from tests.mutants.package_run import instrumented

SAMPLE = '''
RULES = (str.isascii, str.isalnum)

class Reader:
    def read(self, name, length=1):
        """Reads."""
        if not name or (length > 3 and name != "long"):
            raise ValueError(name)
        kept = [each for each in name if each != " "]
        kept.append("!")
        return "".join(kept) if length else ""

def is_plain(text) -> bool:
    if text == "odd":
        return False
    return all(rule(text) for rule in RULES)
'''

# The key, a call, its result without the mutant and with it.
CASES = [
    ("Reader.read never not _", "Reader().read('')", "ValueError", "!"),
    ("Reader.read never _ > 3 and _ != 'long'", "Reader().read('ab', 4)", "ValueError", "ab!"),
    ("Reader.read always _ > 3", "Reader().read('ab', 1)", "ab!", "ValueError"),
    ("Reader.read always _ != 'long'", "Reader().read('long', 4)", "long!", "ValueError"),
    ("Reader.read always not _ or (_ > 3 and _ != 'long')", "Reader().read('ab', 1)", "ab!", "ValueError"),
    ("Reader.read never _ != ' '", "Reader().read('a b')", "ab!", "!"),
    ("Reader.read always _ != ' '", "Reader().read('a b')", "ab!", "a b!"),
    ("Reader.read skips _()", "Reader().read('ab')", "ab!", "ab"),
    ("Reader.read never _", "Reader().read('ab')", "ab!", ""),
    ("Reader.read always _", "Reader().read('ab', 0)", "", "ab!"),
    ("is_plain never _ == 'odd'", "is_plain('odd')", False, True),
    ("is_plain always _ == 'odd'", "is_plain('ab')", True, False),
    ("is_plain never _()", "is_plain('ab')", True, False),
    ("is_plain always _()", "is_plain('-')", False, True),
    ("module lacks _", "is_plain('é')", False, True),
    ("module lacks _ #2", "is_plain('-')", False, True),
]


@pytest.fixture(autouse=True)
def _points(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(builtins, POINTS, points, raising=False)
    monkeypatch.setattr(points, "reached", set[int]())
    yield
    points.active = 0


def _result(call: str, active: int = 0) -> Any:
    """Result of a call in the sample, or the name of its exception."""
    points.active = active
    tree, _ = instrument("sample", SAMPLE)
    names: dict[str, Any] = {}
    try:
        exec(compile(tree, "sample", "exec"), names)
        return eval(call, names)
    except ValueError as error:
        return type(error).__name__


def test_each_guard_has_its_mutants() -> None:
    _, mutants = instrument("sample", SAMPLE)
    assert sorted(mutant.key for mutant in mutants) == sorted(key for key, *_ in CASES)
    assert [mutant.number for mutant in mutants] == list(range(1, len(CASES) + 1))


@pytest.mark.parametrize(("key", "call", "unchanged", "changed"), CASES, ids=lambda each: str(each)[:30])
def test_mutant_applies_its_change_at_reached_code(key: str, call: str, unchanged: object, changed: object) -> None:
    (number,) = (mutant.number for mutant in instrument("sample", SAMPLE)[1] if mutant.key == key)
    assert _result(call) == unchanged
    assert number in points.reached
    assert _result(call, number) == changed


def test_a_key_has_neither_names_nor_places() -> None:
    renamed = SAMPLE.replace("kept", "found").replace("each", "one").replace("\n        kept =", "\n\n        kept =")
    assert [mutant.key for mutant in instrument("sample", renamed)[1]] == [mutant.key for mutant in instrument("sample", SAMPLE)[1]]


def test_every_module_with_guards_and_every_test_of_it_is_there() -> None:
    modules = [module for package in MORE_TESTS for module in guard_modules(package)]
    paths = [module.replace(".", "/") + ".py" for module in modules] + [test for package in MORE_TESTS for test in guard_tests(package)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert GUARDS.keys() >= WORKED_THROUGH


def test_ignored_mutants_exist_and_have_a_reason() -> None:
    for module, ignored in IGNORED.items():
        keys = {mutant.key for mutant in instrumented([module])[1]}
        assert sorted(ignored.keys() - keys) == [], module
        assert all(ignored.values()), module
