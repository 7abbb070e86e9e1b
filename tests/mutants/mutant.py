"""One defence switched off: the file, the text that goes, what stands there instead, and the tests that must notice."""

from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` says what no longer holds.  `tests` are paths under tests/, each perhaps with `::test_name`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied_to(self, text: str) -> str:
        """ValueError where the old text is not there exactly once: then the table is wrong, not the product."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name!r}: the old text occurs {count} times in {self.file}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Door:
    """A file with defences, and the tests that hold them."""

    file: str
    tests: tuple[str, ...]
    mutants: list[Mutant] = field(default_factory=list)

    def without(self, name: str, old: str, new: str, *tests: str) -> None:
        """`tests` stand in for the door's own."""
        self.mutants.append(Mutant(name, self.file, old, new, tests or self.tests))


def door(file: str, *tests: str) -> Door:
    return Door(file, tests)
