"""Entries of authentik's blueprints and of its API, and what refers to what."""

from pathlib import Path
from typing import Any

import pytest

from config.importing.authentik.authentik_entries import APPLICATION, GROUP, PROVIDER, AuthentikEntries, read_entries
from config.importing.foreign_file import read

BLUEPRINT = """\
version: 1
entries:
  - {model: authentik_core.group, id: devs, identifiers: {pk: 7f, name: developers}}
  - {model: authentik_core.group, state: absent, identifiers: {name: gone}}
  - model: authentik_core.application
    identifiers: {slug: wiki}
    conditions: [true]
    attrs: {provider: 5}
"""


def entries(directory: Path, text: str, name: str = "b.yaml") -> AuthentikEntries:
    (directory / name).write_text(text)
    return read_entries(read(directory / name))


@pytest.mark.parametrize(
    "reference", [{"!KeyOf": "devs"}, {"!Find": ["authentik_core.group", ["name", "developers"]]}, "7f"], ids=["id", "field", "primary key"]
)
def test_a_group_is_found_by_each_kind_of_reference(tmp_path: Path, reference: Any) -> None:
    assert entries(tmp_path, BLUEPRINT).named(reference, GROUP, "name") == "developers"


def test_a_group_that_only_the_reference_names_has_that_name(tmp_path: Path) -> None:
    assert entries(tmp_path, BLUEPRINT).named({"!Find": ["authentik_core.group", ["name", "ops"]]}, GROUP, "name") == "ops"


@pytest.mark.parametrize("reference", [{"!KeyOf": "other"}, {"!Context": "x"}, {"!Find": []}, {"a": 1, "b": 2}, None, [], ""])
def test_unsupported_reference_is_not_found(tmp_path: Path, reference: Any) -> None:
    found = entries(tmp_path, BLUEPRINT)
    assert found.find(reference, GROUP) is None
    assert found.named(reference, GROUP, "name") == ""


def test_absence_and_conditions_are_evaluated(tmp_path: Path) -> None:
    found = entries(tmp_path, BLUEPRINT)
    assert [entry.attrs["name"] for entry in found.with_model(GROUP)] == ["developers"]
    assert found.with_model(APPLICATION)[0].is_conditional
    assert found.with_model(APPLICATION)[0].source.line == 5


@pytest.mark.parametrize(
    ("text", "is_complete"),
    [
        ('{"applications": [], "bindings": []}', True),
        ('{"applications": [], "bindings": {"pagination": {"next": 0}, "results": []}}', True),
        ('{"applications": [], "bindings": {"pagination": {"next": 2}, "results": []}}', False),
        ('{"applications": []}', False),
        ('{"entries": [{"model": "authentik_flows.flow"}]}', True),
        ('{"entries": []}', False),
    ],
)
def test_bindings_are_all_there_or_it_is_known_that_they_may_not_be(tmp_path: Path, text: str, is_complete: bool) -> None:
    assert entries(tmp_path, text, "a.json").is_complete is is_complete


def test_answers_of_the_api_are_entries(tmp_path: Path) -> None:
    found = entries(tmp_path, '{"applications": [{"pk": "a", "provider": 5}], "providers": {"results": [{"pk": 5}]}}', "a.json")
    assert found.find(5, PROVIDER) is found.with_model(PROVIDER)[0]
    assert str(found.with_model(PROVIDER)[0].source).startswith("providers.results[0]")
