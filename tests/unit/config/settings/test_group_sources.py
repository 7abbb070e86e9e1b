"""Source of groups, and the account that reads them."""

import base64
from pathlib import Path
from typing import Any

import pytest

from config.options import Options
from config.settings.directory_account import DirectoryAccount
from config.settings.group_sources import directory_account_for, expects_groups_claim, has_group_records
from config.settings.identity_providers import PLACEHOLDERS, provider_entries
from tests.support.options import MINIMAL
from tests.unit.config.conftest import OKTA, Load, Problems

AZURE = {"idp_provider": "azure", "idp_provider_url": "https://login.microsoftonline.com/corp.example/v2.0"}
KEY = base64.b64encode(b'{"api_key": "k"}').decode()
TOKEN = "a-token-of-32-characters-and-more"
AZURE_ENTRY = {"id": "corp", "provider": "azure", "url": AZURE["idp_provider_url"], "client_id": "gate", "client_secret": "secret"}
GROUPS = [{"from": "https://a.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["g"]}]
APART = {"services": "proxy", "databroker_service_url": "https://d:1", "authorize_service_url": "https://a:1"}


def several(*entries: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(PLACEHOLDERS), "identity_providers": list(entries)}


def account(options: Options) -> DirectoryAccount | None:
    return directory_account_for(options, *provider_entries(options))


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
        ({"scim_token": TOKEN}, True),
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
def test_groups_without_record_are_unknown_where_directory_is_configured(
    load: Load, tmp_path: Path, settings: dict[str, Any], is_recorded: bool
) -> None:
    (tmp_path / "directory.yaml").write_text("users: []")
    options = load(**settings)
    assert has_group_records(options, *provider_entries(options)) is is_recorded


def test_azure_can_use_the_sign_in_client(load: Load, problems: Problems, tmp_path: Path) -> None:
    assert problems(**AZURE, policy=GROUPS) == {}
    found = account(load(**AZURE, policy=GROUPS))
    assert found is not None
    revealed = [found.reveal(name) for name in ("client_id", "client_secret", "directory_id")]
    assert revealed == ["gate", MINIMAL["idp_client_secret"], "corp.example"]
    assert account(load(**AZURE)) is None
    (tmp_path / "directory.yaml").write_text("users: []")
    apart = ({**APART, "idp_provider": "okta"}, {**APART, **several(AZURE_ENTRY)})
    for other in ({"groups_claim": "groups"}, {"scim_token": TOKEN}, {"directory_file": "directory.yaml"}, *apart):
        assert account(load(**{**AZURE, "policy": GROUPS, **other})) is None
    shared = {**AZURE, "idp_provider_url": None}
    assert set(problems(**shared, policy=GROUPS)) == {"policy[0].allowed_groups"}


@pytest.mark.parametrize(
    ("settings", "is_claimed"),
    [
        ({}, True),
        ({"groups_claim": ""}, False),
        ({"scim_token": TOKEN}, False),
        ({"directory_file": "directory.yaml"}, False),
        ({"scim_token": TOKEN, "groups_claim": "groups"}, True),
        (several({**AZURE_ENTRY, "groups_claim": "roles", "scim_token": TOKEN}), True),
        (several(AZURE_ENTRY), False),
    ],
)
def test_a_claim_that_stands_by_for_a_directory_is_not_expected(
    load: Load, tmp_path: Path, settings: dict[str, Any], is_claimed: bool
) -> None:
    (tmp_path / "directory.yaml").write_text("users: []")
    options = load(**settings)
    assert expects_groups_claim(options, *provider_entries(options)) is is_claimed


def test_the_ways_to_groups_are_those_of_the_provider(problems: Problems) -> None:
    entry = problems(**several(AZURE_ENTRY), policy=GROUPS)["policy[0].allowed_groups"]
    generic = problems(groups_claim="", policy=GROUPS)["policy[0].allowed_groups"]
    assert "identity_providers" in entry
    assert "idp_service_account" not in generic
