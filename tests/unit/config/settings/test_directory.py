"""The settings of the directory: where groups come from, and what is said where they come from nowhere, or from two places."""

import base64
from pathlib import Path
from typing import Any

import pytest

from config.settings.directory import account_of, groups_are_recorded
from tests.unit.config.conftest import Load, Problems

OKTA = {"idp_provider": "okta", "idp_provider_url": "https://corp.okta.com"}
AZURE = {"idp_provider": "azure", "idp_provider_url": "https://login.microsoftonline.com/corp.example/v2.0"}
KEY = base64.b64encode(b'{"api_key": "k"}').decode()
GROUPS = [{"from": "https://a.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["g"]}]


@pytest.mark.parametrize("written", [KEY, '{"api_key": "k"}', base64.b64encode(b"k").decode()])
def test_the_account_is_base64_or_json(load: Load, written: str) -> None:
    account = account_of(load(**OKTA, idp_service_account=written))
    assert account is not None
    assert account.reveal("api_key") == "k"


def test_the_account_may_be_a_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "account.json").write_text('{"api_key": "from-file"}')
    account = account_of(load(**OKTA, idp_service_account_file="account.json"))
    assert account is not None
    assert account.reveal("api_key") == "from-file"


def test_groups_of_a_vendor_need_credentials(problems: Problems) -> None:
    found = problems(**OKTA, policy=GROUPS)
    assert list(found) == ["policy[0].allowed_groups"]
    for setting in ("idp_service_account", "scim_token", "directory_file", "groups_claim"):
        assert setting in found["policy[0].allowed_groups"]
    assert problems(**OKTA, policy=GROUPS, idp_service_account=KEY) == {}
    assert problems(**OKTA, policy=GROUPS, groups_claim="groups") == {}


def test_a_generic_provider_has_none_to_use(problems: Problems) -> None:
    assert "groups_claim" in problems(idp_service_account=KEY)["idp_service_account"]


def test_in_split_mode_another_process_may_have_them(problems: Problems) -> None:
    apart = {"services": "proxy", "databroker_service_url": "https://d:1", "authorize_service_url": "https://a:1"}
    assert problems(**OKTA, **apart, policy=GROUPS) == {}


APART = {"services": "proxy", "databroker_service_url": "https://d:1", "authorize_service_url": "https://a:1"}


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
    assert groups_are_recorded(load(**settings)) is is_recorded


def test_azure_can_ask_with_the_client_of_the_sign_in(load: Load, problems: Problems) -> None:
    assert problems(**AZURE, policy=GROUPS) == {}
    account = account_of(load(**AZURE, policy=GROUPS))
    assert account is not None
    assert (account.reveal("client_id"), account.reveal("directory_id")) == ("gate", "corp.example")
    assert account_of(load(**AZURE)) is None
    assert account_of(load(**AZURE, policy=GROUPS, groups_claim="groups")) is None
    shared = {**AZURE, "idp_provider_url": None}
    assert set(problems(**shared, policy=GROUPS)) == {"policy[0].allowed_groups"}


def test_a_file_and_an_account_contradict_each_other(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "directory.yaml").write_text("users: []")
    found = problems(**OKTA, idp_service_account=KEY, directory_file="directory.yaml")
    assert "one directory source" in found["directory_file"]
    found = problems(**OKTA, idp_service_account=KEY, directory_file="directory.yaml", scim_token="a-token-of-32-characters-and-more")
    assert "one directory source" in found["scim_token"]


@pytest.mark.parametrize("url", ["https://graph.microsoft.us", "http://127.0.0.1:1", "https://git.example.com/api/v3/"])
def test_its_address(load: Load, url: str) -> None:
    assert load(idp_directory_url=url).idp_directory_url == url.rstrip("/")


def test_how_long_and_how_fast(load: Load) -> None:
    options = load(idp_qps=2.5, idp_refresh_directory_timeout="5m")
    assert (float(options.idp_qps or 0), options.idp_refresh_directory_timeout.total_seconds()) == (2.5, 300)
    assert load().idp_qps is None
    assert load().idp_refresh_directory_timeout.total_seconds() == 60
