"""Result of a conversion: settings and routes of gate, with notes on their origin."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Note on a key that no importer knows.
NO_COUNTERPART = "it has no counterpart known to this importer. All settings: docs/reference/settings.md"
GRANTS = ("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims")
OPEN = ("allow_public_unauthenticated_access", "allow_any_authenticated_user")
# A route without one of these keys would match more requests, or allow more users.
_NARROWING = frozenset({"policy", "path", "prefix", "regex", "tls_downstream_client_ca", "acr_values", "max_age"})


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Key of the source file; `line` is None if the format has no positions."""

    key: str
    line: int | None = None

    def __str__(self) -> str:
        return self.key if self.line is None else f"{self.key} (line {self.line})"


@dataclass(slots=True)
class ConversionNote:
    """Note on a key. `mark` is `from`, `CHECK` (converted with a difference), `LOST` (not converted) or `NEW`."""

    mark: str
    text: str


@dataclass(slots=True)
class ConvertedEntry:
    """Key of gate with the notes above it; an empty key means notes only."""

    notes: list[ConversionNote]
    key: str = ""
    value: Any = None


@dataclass(slots=True)
class ConvertedSection:
    """Section of the conversion: the top level, or one route.

    `auth_urls` are the external authorization endpoints of the original. `has_dropped_restrictions`: the original had restrictions that the
    converted route lacks.
    """

    entries: list[ConvertedEntry] = field(default_factory=list)
    auth_urls: tuple[str, ...] = ()
    has_dropped_restrictions: bool = False

    def set(self, source: ForeignKey | None, key: str, value: Any, check: str = "", new: str = "") -> None:
        notes = []
        if source is not None and check:
            notes.append(ConversionNote("CHECK", f"{source}: {check}"))
        elif source is not None and source.key != key:
            notes.append(ConversionNote("from", f"{source}"))
        if new:
            notes.append(ConversionNote("NEW", new))
        self.entries.append(ConvertedEntry(notes, key, value))

    def mark_lost(self, source: ForeignKey, why: str) -> None:
        self.note("LOST", f"{source}: {why}")

    def note(self, mark: str, text: str) -> None:
        self.entries.append(ConvertedEntry([ConversionNote(mark, text)]))

    def has(self, key: str) -> bool:
        return self.find(key) is not None

    def find(self, key: str) -> ConvertedEntry | None:
        return next((entry for entry in self.entries if entry.key == key and key), None)

    def reject(self, entry: ConvertedEntry, why: str) -> None:
        """Replace a key by a note. If the key restricted the route, deny all users there."""
        key, entry.key, entry.value = entry.key, "", None
        entry.notes.append(ConversionNote("LOST", f"{key}: {why}"))
        if key in _NARROWING and self.has("from"):
            self.deny_all()
            entry.notes.append(
                ConversionNote("LOST", f"{key}: without it the route would allow more, so all users are denied. Add the users to allow")
            )

    def deny_all(self) -> None:
        """Remove all keys that grant access."""
        self.remove("policy", *GRANTS, *OPEN)

    def remove(self, *keys: str) -> None:
        """Remove these keys, and keep their notes."""
        for entry in self.entries:
            if entry.key in keys:
                entry.key, entry.value = "", None

    def notes(self) -> Iterator[ConversionNote]:
        for entry in self.entries:
            yield from entry.notes


@dataclass(slots=True)
class Conversion:
    """A conversion. `product` is the product of the source file; `tests` are policy tests of its decisions."""

    product: str
    top: ConvertedSection = field(default_factory=ConvertedSection)
    routes: list[ConvertedSection] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def active_routes(self) -> list[ConvertedSection]:
        """Routes that contain more than notes."""
        return [route for route in self.routes if any(entry.key for entry in route.entries)]

    @property
    def lost(self) -> int:
        return self._count("LOST")

    @property
    def to_check(self) -> int:
        return self._count("CHECK")

    def _count(self, mark: str) -> int:
        return sum(note.mark == mark for part in (self.top, *self.routes) for note in part.notes())
