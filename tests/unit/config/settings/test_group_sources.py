"""Where groups come from, and with which account they are read."""

import base64
from pathlib import Path
from typing import Any

import pytest

from config.options import Options
from config.settings.directory_account import DirectoryAccount
from config.settings.group_sources import account_of, groups_are_recorded
from config.settings.identity_providers import provider_entries
from tests.unit.config.conftest import OKTA, Load, Problems

AZURE = {"idp_provider": "azure", "idp_provider_url": "https://login.microsoftonline.com/corp.example/v2.0"}
KEY = base64.b64encode(b'{"api_key": "k"}').decode()
GROUPS = [{"from": "https://a.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["g"]}]
APART = {"services": "proxy", "databroker_service_url": "https://d:1", "authorize_service_url": "https://a:1"}


def account(options: Options) -> DirectoryAccount | None:
    return account_of(options, *provider_entries(options))


@pytest.mark.parametrize("written", [KEY, '{"api_key": "k"}', base64.b64encode(b"k").decode()])
def test_the_account_is_base64_or_json(load: Load, written: str) -> None:
    found = account(load(**OKTA, idp_service_account=written))
    assert found is not None
    assert found.reveal("api_key") == "k"


def test_the_account_may_be_a_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "account.json").write_text('{"api_key": "from-file"}')
    found = account(load(**OKTA, idp_service_account_file="account.json"))
    assert found is not None
    assert found.reveal("api_key") == "from-file"


def test_groups_of_a_vendor_need_credentials(problems: Problems) -> None:
    found = problems(**OKTA, policy=GROUPS)
    assert list(found) == ["policy[0].allowed_groups"]
    for setting in ("idp_service_account", "scim_token", "directory_file", "groups_claim"):
        assert setting in found["policy[0].allowed_groups"]
    assert problems(**OKTA, policy=GROUPS, idp_service_account=KEY) == {}
    assert problems(**OKTA, policy=GROUPS, groups_claim="groups") == {}


def test_in_split_mode_another_process_may_have_them(problems: Problems) -> None:
    assert problems(**OKTA, **APART, policy=GROUPS) == {}


@pytest.mark.parametrize(
    ("settings", "is_recorded"),
    [
        ({}, False),
        ({"scim_token": "a-token-of-32-characters-and-more"}, True),
        ({**OKTA}, False),
        ({**OKTA, "idp_service_account": KEY}, True),
        ({**OKTA, "idp_service_account": KEY, "groups_claim": "groups"}, True),
        ({**OKTA, "directory_file": "directory.yaml"}, False),
        ({**AZURE, "policy": GROUPS}, True),
        ({**AZURE}, False),
        ({**APART}, False),
        ({**APART, **OKTA}, True),
        ({**APART, **OKTA, "groups_claim": "groups"}, False),
        ({**APART, **OKTA, "directory_file": "directory.yaml"}, False),
    ],
)
def test_groups_of_whom_there_is_no_record_are_unknown_where_a_directory_is_to_tell_them(
    load: Load, tmp_path: Path, settings: dict[str, Any], is_recorded: bool
) -> None:
    (tmp_path / "directory.yaml").write_text("users: []")
    options = load(**settings)
    assert groups_are_recorded(options, *provider_entries(options)) is is_recorded


def test_azure_can_ask_with_the_client_of_the_sign_in(load: Load, problems: Problems) -> None:
    assert problems(**AZURE, policy=GROUPS) == {}
    found = account(load(**AZURE, policy=GROUPS))
    assert found is not None
    assert (found.reveal("client_id"), found.reveal("directory_id")) == ("gate", "corp.example")
    assert account(load(**AZURE)) is None
    assert account(load(**AZURE, policy=GROUPS, groups_claim="groups")) is None
    shared = {**AZURE, "idp_provider_url": None}
    assert set(problems(**shared, policy=GROUPS)) == {"policy[0].allowed_groups"}
