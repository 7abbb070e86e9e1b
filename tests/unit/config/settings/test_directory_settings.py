"""The settings of the directory: where groups come from, and what is said where they come from nowhere, or from two places."""

import base64
from pathlib import Path

import pytest

from tests.unit.config.conftest import Load, Problems

OKTA = {"idp_provider": "okta", "idp_provider_url": "https://corp.okta.com"}
AZURE = {"idp_provider": "azure", "idp_provider_url": "https://login.microsoftonline.com/corp.example/v2.0"}
KEY = base64.b64encode(b'{"api_key": "k"}').decode()
GROUPS = [{"from": "https://a.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["g"]}]


def test_a_generic_provider_has_none_to_use(problems: Problems) -> None:
    assert "groups_claim" in problems(idp_service_account=KEY)["idp_service_account"]


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
