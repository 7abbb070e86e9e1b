"""Which provider has which directory, and when it is read at all."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from authenticate.directory.vendors.registry import DIRECTORIES, vendor_of
from config.settings.directory_account import PROVIDERS_WITH_DIRECTORY
from tests.support.options import make_options


def test_every_provider_with_credentials_has_a_directory() -> None:
    assert set(DIRECTORIES) == set(PROVIDERS_WITH_DIRECTORY)
    assert all(kind.kind == name for name, kind in DIRECTORIES.items())


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        ({"idp_provider": "okta", "idp_provider_url": "https://corp.okta.com/oauth2/default"}, "https://corp.okta.com"),
        ({"idp_provider": "gitlab", "idp_provider_url": None}, "https://gitlab.com"),
        ({"idp_provider": "gitlab", "idp_provider_url": "https://git.corp.example"}, "https://git.corp.example"),
        ({"idp_provider": "auth0", "idp_provider_url": "https://corp.eu.auth0.com/"}, "https://corp.eu.auth0.com"),
    ],
)
def test_its_address_follows_from_where_people_sign_in(tmp_path: Path, settings: dict[str, str], base: str) -> None:
    every = {"api_key": "k", "private_token": "k", "client_id": "c", "secret": "s"}
    account = b64encode(json.dumps(every).encode()).decode()
    vendor = vendor_of(make_options(tmp_path, idp_service_account=account, **settings), lambda: 0.0)
    assert vendor is not None
    assert vendor.base == base


def test_without_credentials_there_is_none(tmp_path: Path) -> None:
    assert vendor_of(make_options(tmp_path), lambda: 0.0) is None
