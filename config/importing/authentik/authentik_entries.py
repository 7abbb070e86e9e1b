"""Entries of authentik: a blueprint (YAML, written or exported), or API responses in one JSON document.

A blueprint refers to entries by `!KeyOf id`, `!Find [model, [field, value]]` or primary key, the API by primary key.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from config.importing.conversion import ForeignKey
from config.importing.foreign_file import ForeignConfig

PROVIDER, APPLICATION = "authentik_providers_proxy.proxyprovider", "authentik_core.application"
BINDING, GROUP, USER = "authentik_policies.policybinding", "authentik_core.group", "authentik_core.user"
# Key of the JSON document -> model. Each value is a list, or an API response with `results`.
_API_MODELS = {"providers": PROVIDER, "applications": APPLICATION, "bindings": BINDING, "groups": GROUP, "users": USER}


@dataclass(frozen=True, slots=True)
class AuthentikEntry:
    """An entry. `attrs` includes the identifiers; `name` is its id in the blueprint, or ""."""

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
    """All entries. With `is_complete`, bindings that are not listed do not exist.

    A written blueprint may be partial. An exported one is complete and includes the flows. An API response may be one page of several.
    """

    entries: tuple[AuthentikEntry, ...]
    is_complete: bool

    def with_model(self, model: str) -> list[AuthentikEntry]:
        return [entry for entry in self.entries if entry.model == model]

    def find(self, reference: Any, model: str) -> AuthentikEntry | None:
        """Return the entry of a reference; None if it is not in the file, or the reference is not supported."""
        if isinstance(reference, dict) and len(reference) == 1:
            ((tag, value),) = reference.items()
            if tag == "!KeyOf":
                return next((entry for entry in self.with_model(model) if entry.name and entry.name == value), None)
            conditions = dict(_conditions(value)) if tag == "!Find" else {}
            return next(
                (entry for entry in self.with_model(model) if conditions and conditions.items() <= _plain(entry.attrs).items()), None
            )
        return next((entry for entry in self.with_model(model) if entry.key and entry.key == str(reference)), None)

    def named(self, reference: Any, model: str, field: str) -> str:
        """Return a field of the referenced entry, even if only the reference contains it; "" if it is unknown."""
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
