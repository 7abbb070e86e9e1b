"""A mutant written by hand: a place, what it means without its defence, and the tests that must notice; and the table of them all."""

import ast
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.operations import Operation, place_of
from tests.support.source_trees import parsed

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` says what no longer holds.  `module` and `where` are dotted; "" is the module itself.

    `tests` are paths under tests/, each perhaps with `::test_name`.
    """

    name: str
    module: str
    where: str
    operation: Operation
    tests: tuple[str, ...]

    @property
    def file(self) -> str:
        return self.module.replace(".", "/") + ".py"

    def applied_to(self, source: str) -> str:
        return ast.unparse(self.tree(source))

    def tree(self, source: str) -> ast.Module:
        """The module without the defence.  ValueError where its place or what it changes there is not found: the table is wrong."""
        tree = parsed(source)
        place = place_of(tree, self.where)
        before = ast.dump(place)
        if (count := self.operation.edit(place)) != self.operation.times:
            raise ValueError(f"{self.name!r}: {self.operation.source} is found {count} times in {self.where or 'the module'}")
        if ast.dump(place) == before:
            raise ValueError(f"{self.name!r} changes nothing")
        return tree


@dataclass(frozen=True, slots=True)
class ScriptMutant:
    """A defence disabled in a Lua script of Envoy, which is text here: a fragment that occurs once is replaced."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied_to(self, source: str) -> str:
        """The script without the defence.  ValueError where the fragment is not there, or more than once: the table is wrong."""
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{self.name!r}: {self.old} is found {count} times")
        return source.replace(self.old, self.new)


MUTANTS = list[Mutant | ScriptMutant]()


@dataclass(frozen=True, slots=True)
class ScriptDoor:
    """A script with defences, and the tests that hold them: those run a real Envoy, as nothing else here speaks its Lua."""

    file: str
    tests: tuple[str, ...]

    def without(self, name: str, old: str, new: str = "", *tests: str) -> None:
        """`tests` replaces the script's tests."""
        MUTANTS.append(ScriptMutant(name, self.file, old, new, tests or self.tests))


@dataclass(frozen=True, slots=True)
class Door:
    """A module with defences, and the tests that hold them."""

    module: str
    tests: tuple[str, ...]

    def without(self, name: str, where: str, operation: Operation, *tests: str) -> None:
        """`tests` replaces the guard's tests."""
        MUTANTS.append(Mutant(name, self.module, where, operation, tests or self.tests))


def door(module: str, *tests: str) -> Door:
    return Door(module, tests)


def script_door(file: str, *tests: str) -> ScriptDoor:
    return ScriptDoor(file, tests)
