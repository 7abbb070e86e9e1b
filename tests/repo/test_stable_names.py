"""Names that other people store, query or call stay as `stable_names.yaml` lists them.

`python -m tests.repo.test_stable_names` writes the list after an intended change.
"""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.apps import apps

import authorize.upstream.account_connections  # noqa: F401 - its values are subclasses of RecordValue
import databroker.grants.access_request_store
import databroker.service_account_store  # noqa: F401
from authenticate.oauth.oauth_records import ConsentRecord, RegisteredClient
from databroker.agent_records import AccessToken, AgentAuthorization, AuthorizationCode
from databroker.records import RECORD_TYPES, RecordValue
from tests.support.children import ROOT
from tests.support.log_events import log_events

LIST = Path(__file__).with_name("stable_names.yaml")
REFERENCE = ROOT / "docs" / "reference"
CHANGES = {
    "record types": "a migration of stored records (a new FORMAT in the sealed store)",
    "record fields": "a migration of stored records (a new FORMAT in the sealed store)",
    "columns": "a database migration",
    "settings": "a deprecated alias (config/removed_keys.py)",
    "API operations": "a deprecated alias",
    "API fields": "a deprecated alias",
    "metrics": "a line under Changed in CHANGELOG.md",
    "log events": "a line under Changed in CHANGELOG.md",
}


def _subclasses(base: type[RecordValue]) -> set[Any]:
    direct = base.__subclasses__()
    return {*direct, *(each for child in direct for each in _subclasses(child))}


STORED_VALUES = {*_subclasses(RecordValue), ConsentRecord, RegisteredClient, AgentAuthorization, AccessToken, AuthorizationCode}


def stable_names() -> dict[str, list[str]]:
    schema = json.loads((REFERENCE / "config.schema.json").read_text())
    api = json.loads((REFERENCE / "openapi.json").read_text())
    names = {
        "record types": RECORD_TYPES,
        "record fields": {f"{value.__name__}.{field.name}" for value in STORED_VALUES for field in fields(value)},
        "columns": {
            f"{model._meta.db_table}.{field.column}"
            for label in ("databroker", "authorize")
            for model in apps.get_app_config(label).get_models()
            for field in model._meta.concrete_fields
        },
        "settings": {
            *schema["properties"],
            *(f"{name}.{key}" for name, each in schema["$defs"].items() for key in each.get("properties", ())),
        },
        "API operations": {
            f"{method.upper()} {path}" for path, methods in api["paths"].items() for method in methods if method != "parameters"
        },
        "API fields": {f"{name}.{key}" for name, each in api["components"]["schemas"].items() for key in each.get("properties", ())},
        "metrics": re.findall(r"^\| `(\w+)` \|", (REFERENCE / "metrics.md").read_text(), re.MULTILINE),
        "log events": {event.name for event in log_events()},
    }
    return {kind: sorted(found) for kind, found in names.items()}


@pytest.mark.parametrize("kind", CHANGES)
def test_names_are_those_of_the_list(kind: str) -> None:
    listed, current = set(yaml.safe_load(LIST.read_text())[kind]), set(stable_names()[kind])
    assert listed - current == set(), f"gone; it needs {CHANGES[kind]}, then `python -m tests.repo.test_stable_names`"
    assert current - listed == set(), "new: `python -m tests.repo.test_stable_names` adds it"


if __name__ == "__main__":
    import django

    django.setup()
    LIST.write_text(yaml.safe_dump(stable_names(), sort_keys=False, width=140))
