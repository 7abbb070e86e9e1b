"""No message about a configuration shows a secret, whatever is wrong with it."""

import base64
from typing import Any

import pytest

from gateproject.config.reference import Key, keys, nested, route_keys, settings
from tests.unit.gateproject.config.conftest import Problems
from tests.unit.gateproject.config.test_schema import configuration

MARK = "SnowInApril"
SETTINGS = [key for group in settings().values() for key in group]
OBJECTS = [key for _, model in nested([*SETTINGS, *route_keys()]) for key in keys(model)]
WITH_A_PASSWORD = ("databroker_storage_connection_string", "database_url")
SECRETS = [
    key
    for key in [*SETTINGS, *route_keys(), *OBJECTS]
    if key.is_built and ("Secret" in repr(key.field.annotation) or key.name in WITH_A_PASSWORD)
]

WRONG: list[Any] = [
    *[MARK, f" {MARK}", f"{MARK}\n", f"{MARK}\x00", f"{MARK}=", f"{MARK},{MARK}", f"/{MARK}", f"{MARK}:{MARK}", f"-----BEGIN {MARK}"],
    base64.b64encode(f"-----BEGIN PRIVATE KEY-----{MARK}".encode()).decode() + f"{MARK}!",
    f"kvstores://:{MARK}@store internal",
    f"kvstore://{MARK}@@",
    f"postgresql://gate:{MARK}@db:port/x",
    f"postgresql://gate:{MARK}@/x y",
    f"mysql://gate:{MARK}@db/x",
    [MARK],
    [MARK, [MARK]],
    {MARK: MARK},
    {"a": [MARK]},
]


def test_the_secrets_are_known() -> None:
    names = {key.name for key in SECRETS}
    assert {"cookie_secret", "shared_secret", "idp_client_secret", "certificate_key", "signing_key", "key"} <= names


@pytest.mark.parametrize("key", SECRETS, ids=lambda key: f"{key.owner.__name__}.{key.name}")
def test_a_wrong_secret_is_not_shown(key: Key, problems: Problems) -> None:
    refused = 0
    for wrong in WRONG:
        found = problems(**configuration(key, wrong))
        if key in SETTINGS and isinstance(wrong, str):
            found |= problems({key.name.upper(): wrong.replace("\x00", "")})
        refused += bool(found)
        shown = [message for message in found.values() if MARK in message]
        may_be_a_path = "file path" in key.kind and "-----" not in str(wrong)
        assert shown == [] or may_be_a_path, shown
    assert refused or key.name == "idp_client_secret"
