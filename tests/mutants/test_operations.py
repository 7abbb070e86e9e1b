"""Operations on a sample: the resulting text, and errors of the table."""

import ast

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.operations import Operation, always, constant, does, in_text, lacks, never, omits, passes, replaced, returns, skips
from tests.support.source_trees import parsed

SAMPLE = r'''
MOST = 3
SPELLING = re.compile(rb"[a-z]" rb"[0-9]+")


class Reader:
    @property
    def rest(self): return self._rest

    @rest.setter
    def rest(self, value): self._rest = value

    async def read(self, name, *, most=MOST):
        """Reads."""
        if not name or (self.is_closed and
                        name != "it's"):  # a comment
            raise Refused(f"no {name}", 400)
        for each in self.parts:
            await self.send(each, key=self.key, follow=False)
            self.log(each)
        return [each for each in self.parts if each.fits] if self.parts else {"a": 1, **self.more}


def outer():
    def inner(): return MOST
    return inner
'''

# Location, operation, and the text of the sample before and after it.
CASES = [
    ("Reader.read", never("not name"), "if not name or", "if False or"),
    ("Reader.read", never("self.is_closed and name != 'it\\'s'"), 'self.is_closed and\n                        name != "it\'s"', "False"),
    ("Reader.read", always("name != ..."), 'name != "it\'s"', "True"),
    ("Reader.read", always("each.fits"), "if each.fits", "if True"),
    ("Reader.read", always("self.parts"), "if self.parts", "if True"),
    ("Reader.read", skips("self.log(...)"), "self.log(each)", "pass"),
    ("Reader.read", skips("await self.send(each, key=..., follow=...)"), "await self.send(each, key=self.key, follow=False)", "pass"),
    ("Reader.read", replaced("raise Refused(...)", "return None"), 'raise Refused(f"no {name}", 400)', "return None"),
    ("Reader.read", replaced("raise Refused(...)", "raise Wrong(...)"), "raise Refused(", "raise Wrong("),
    ("Reader.read", replaced("self.send(...)", "self.put(...)"), "self.send(", "self.put("),
    ("Reader.read", replaced("... if self.parts else ...", "... if self.all else ..."), "if self.parts else", "if self.all else"),
    ("Reader.read", replaced("for each in self.parts: ...", "for each in (): ..."), "for each in self.parts:\n", "for each in ():\n"),
    ("Reader.read", passes(follow="True"), "follow=False", "follow=True"),
    ("Reader.read", passes(a="2"), '"a": 1', '"a": 2'),
    ("Reader.read", omits("key"), ", key=self.key", ""),
    ("Reader.read", lacks("400"), ", 400", ""),
    ("Reader.read", lacks("'a'"), '"a": 1, ', ""),
    ("Reader.read", lacks("**self.more"), ", **self.more", ""),
    ("outer.inner", returns("9"), "return MOST", "return 9"),
    ("outer", does("pass"), "def inner(): return MOST\n    return inner", "pass"),
    ("MOST", constant("10**9"), "MOST = 3", "MOST = 10**9"),
    ("SPELLING", in_text(b"][", b"].["), '[a-z]" rb"[0-9]', "[a-z].[0-9]"),
]


def _mutant(where: str, operation: Operation) -> Mutant:
    return Mutant("sample", "sample", where, operation, ("sample",))


@pytest.mark.parametrize(("where", "operation", "old", "new"), CASES, ids=lambda each: str(each)[:20])
def test_location_matches_its_operation(where: str, operation: Operation, old: str, new: str) -> None:
    assert SAMPLE.count(old) == 1
    assert ast.dump(parsed(_mutant(where, operation).applied_to(SAMPLE))) == ast.dump(parsed(SAMPLE.replace(old, new)))


def test_repeated_text_is_changed_as_often_as_the_table_states() -> None:
    changed = _mutant("Reader.rest", replaced("self._rest", "self.none", times=2)).applied_to(SAMPLE)
    assert changed.count("self.none") == 2


@pytest.mark.parametrize(
    ("where", "operation", "problem"),
    [
        ("Reader.write", returns("1"), "there is no Reader.write"),
        ("inner", returns("1"), "there is no inner"),
        ("Reader.read", never("most"), "most is found 0 times in Reader.read"),
        ("Reader.read", never("each"), "each is found 0 times"),
        ("Reader.read", replaced("each", "other"), "each is found 6 times"),
        ("Reader.read", lacks("each"), "each is found 2 times"),
        ("MOST", returns("1"), "found 0 times in MOST"),
        ("outer", constant("1"), "found 0 times in outer"),
        ("MOST", constant("3"), "changes nothing"),
        ("SPELLING", in_text("a", "b"), "found 0 times"),
    ],
)
def test_reports_errors_in_the_table(where: str, operation: Operation, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        _mutant(where, operation).applied_to(SAMPLE)
