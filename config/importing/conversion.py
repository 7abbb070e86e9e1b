"""Converted configuration: settings and routes of ours, each with what its reader must know about where it came from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Of a key that no importer knows.
NO_COUNTERPART = "it has no counterpart known to this importer. All settings: docs/reference/settings.md"
GRANTS = ("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims")
OPEN = ("allow_public_unauthenticated_access", "allow_any_authenticated_user")
# Without one of these a route takes more requests than it was made for, or lets more people in.
_NARROWING = frozenset({"policy", "path", "prefix", "regex", "tls_downstream_client_ca", "acr_values", "max_age"})


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Key of the foreign file; `line` is None where the format does not tell it."""

    key: str
    line: int | None = None

    def __str__(self) -> str:
        return self.key if self.line is None else f"{self.key} (line {self.line})"


@dataclass(slots=True)
class ConversionNote:
    """Note on a key: `mark` is `from`, `CHECK` (carried over with a difference), `LOST` (not carried over) or `NEW`."""

    mark: str
    text: str


@dataclass(slots=True)
class ConvertedEntry:
    """Key of ours with the notes above it; without a key, only notes."""

    notes: list[ConversionNote]
    key: str = ""
    value: Any = None


@dataclass(slots=True)
class ConvertedSection:
    """Part of the conversion: the top level, or one route.

    `asked` are the addresses that the original asked whether a request may pass; `has_lost_limits`: it kept out others, too, whom nothing
    here keeps out.
    """

    entries: list[ConvertedEntry] = field(default_factory=list)
    asked: tuple[str, ...] = ()
    has_lost_limits: bool = False

    def set(self, source: ForeignKey | None, key: str, value: Any, check: str = "", new: str = "") -> None:
        notes = []
        if source is not None and check:
            notes.append(ConversionNote("CHECK", f"{source}: {check}"))
        elif source is not None and source.key != key:
            notes.append(ConversionNote("from", f"{source}"))
        if new:
            notes.append(ConversionNote("NEW", new))
        self.entries.append(ConvertedEntry(notes, key, value))

    def lose(self, source: ForeignKey, why: str) -> None:
        self.note("LOST", f"{source}: {why}")

    def note(self, mark: str, text: str) -> None:
        self.entries.append(ConvertedEntry([ConversionNote(mark, text)]))

    def has(self, key: str) -> bool:
        return self.find(key) is not None

    def find(self, key: str) -> ConvertedEntry | None:
        return next((entry for entry in self.entries if entry.key == key and key), None)

    def refuse(self, entry: ConvertedEntry, why: str) -> None:
        """Refusal of a key: instead of it there is a note; a route that it kept narrow is closed."""
        key, entry.key, entry.value = entry.key, "", None
        entry.notes.append(ConversionNote("LOST", f"{key}: {why}"))
        if key in _NARROWING and self.has("from"):
            self.close()
            entry.notes.append(
                ConversionNote("LOST", f"{key}: without it the route would allow more, so all users are denied. Add the users to allow")
            )

    def close(self) -> None:
        """Nobody passes."""
        self.drop("policy", *GRANTS, *OPEN)

    def drop(self, *keys: str) -> None:
        """The notes stay."""
        for entry in self.entries:
            if entry.key in keys:
                entry.key, entry.value = "", None

    def notes(self) -> Iterator[ConversionNote]:
        for entry in self.entries:
            yield from entry.notes


@dataclass(slots=True)
class Conversion:
    """Conversion as a whole.  `product` is what the file was written for; `tests` are policy tests of what it allowed."""

    product: str
    top: ConvertedSection = field(default_factory=ConvertedSection)
    routes: list[ConvertedSection] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def written_routes(self) -> list[ConvertedSection]:
        """Routes of which more than notes is left."""
        return [route for route in self.routes if any(entry.key for entry in route.entries)]

    @property
    def lost(self) -> int:
        return self._count("LOST")

    @property
    def to_check(self) -> int:
        return self._count("CHECK")

    def _count(self, mark: str) -> int:
        return sum(note.mark == mark for part in (self.top, *self.routes) for note in part.notes())
