"""Entries of authentik: of a blueprint (YAML, as written or exported), or of its API's answers put into one JSON document.

A blueprint refers to other entries by `!KeyOf id`, `!Find [model, [field, value]]` or primary key, the API by primary key.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from config.importing.conversion import ForeignKey
from config.importing.foreign_file import ForeignConfig

PROVIDER, APPLICATION = "authentik_providers_proxy.proxyprovider", "authentik_core.application"
BINDING, GROUP, USER = "authentik_policies.policybinding", "authentik_core.group", "authentik_core.user"
# Keys of the JSON document -> what they list: each is a list, or an answer of the API with its `results`.
_API_MODELS = {"providers": PROVIDER, "applications": APPLICATION, "bindings": BINDING, "groups": GROUP, "users": USER}


@dataclass(frozen=True, slots=True)
class AuthentikEntry:
    """Entry.  `attrs` has its identifiers, too; `name` is its id within the blueprint, empty where it has none."""

    model: str
    source: ForeignKey
    attrs: dict[str, Any]
    name: str = ""
    is_conditional: bool = False

    @property
    def key(self) -> str:
        return str(self.attrs.get("pk", ""))


@dataclass(frozen=True, slots=True)
class AuthentikEntries:
    """Entries.  `is_whole`: a binding that is not among them is nowhere.

    A blueprint is no more than what its author put there, unless it was exported, which has the flows in it, too; an answer of the API
    may be one page of several.
    """

    entries: tuple[AuthentikEntry, ...]
    is_whole: bool

    def of(self, model: str) -> list[AuthentikEntry]:
        return [entry for entry in self.entries if entry.model == model]

    def find(self, reference: Any, model: str) -> AuthentikEntry | None:
        """Entry that a reference means; None for one that is not in the file, or is not understood."""
        if isinstance(reference, dict) and len(reference) == 1:
            ((tag, value),) = reference.items()
            if tag == "!KeyOf":
                return next((entry for entry in self.of(model) if entry.name and entry.name == value), None)
            conditions = dict(_conditions(value)) if tag == "!Find" else {}
            return next((entry for entry in self.of(model) if conditions and conditions.items() <= _plain(entry.attrs).items()), None)
        return next((entry for entry in self.of(model) if entry.key and entry.key == str(reference)), None)

    def named(self, reference: Any, model: str, field: str) -> str:
        """Value of a field of what a reference means, also where only the reference says it; "" where it is not known."""
        found = self.find(reference, model)
        value = found.attrs.get(field) if found else None
        if value is None and isinstance(reference, dict):
            value = dict(_conditions(reference.get("!Find"))).get(field)
        return value if isinstance(value, str) else ""


def read_entries(foreign: ForeignConfig) -> AuthentikEntries:
    if "entries" in foreign.values:
        found = tuple(_blueprint_entries(foreign))
        return AuthentikEntries(found, any(entry.model == "authentik_flows.flow" for entry in found))
    bindings = foreign.values.get("bindings")
    pages = _map(_map(bindings).get("pagination"))
    return AuthentikEntries(tuple(_api_entries(foreign)), isinstance(bindings, list | dict) and not pages.get("next"))


def _blueprint_entries(foreign: ForeignConfig) -> Iterator[AuthentikEntry]:
    for index, raw in enumerate(foreign.values["entries"]):
        if isinstance(raw, dict) and raw.get("state") != "absent":
            attrs = {**_map(raw.get("identifiers")), **_map(raw.get("attrs"))}
            source = foreign.source("entries", index)
            yield AuthentikEntry(str(raw.get("model")).lower(), source, attrs, str(raw.get("id") or ""), bool(raw.get("conditions")))


def _api_entries(foreign: ForeignConfig) -> Iterator[AuthentikEntry]:
    for key, model in _API_MODELS.items():
        answer = foreign.values.get(key)
        listed = answer.get("results") if isinstance(answer, dict) else answer
        for index, raw in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(raw, dict):
                path = (key, "results", index) if isinstance(answer, dict) else (key, index)
                yield AuthentikEntry(model, foreign.source(*path), raw)


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(attrs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attrs.items() if isinstance(value, str | int)}


def _conditions(value: Any) -> Iterator[tuple[str, str | int]]:
    for pair in value[1:] if isinstance(value, list) else []:
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str | int):
            yield pair[0], pair[1]
