"""Directory type of each provider, and the conditions under which it is read."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from authenticate.directory.vendors.vendor_registry import DIRECTORIES, build_vendor
from config.settings.directory_account import PROVIDERS_WITH_DIRECTORY
from config.settings.identity_providers import PLACEHOLDERS
from tests.support.cloud import account_json
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
def test_its_address_follows_from_the_authenticate_url(tmp_path: Path, settings: dict[str, str], base: str) -> None:
    every = {"api_key": "k", "private_token": "k", "client_id": "c", "secret": "s"}
    account = b64encode(json.dumps(every).encode()).decode()
    options = make_options(tmp_path, idp_service_account=account, **settings)
    vendor = build_vendor(options, options.first_provider, lambda: 0.0)
    assert vendor is not None
    assert vendor.base == base


@pytest.mark.parametrize(("services", "issuer"), [("all", "https://accounts.google.com"), ("databroker", "")])
def test_data_broker_does_not_need_the_authenticate_url(tmp_path: Path, services: str, issuer: str) -> None:
    account = b64encode(json.dumps({**json.loads(account_json()), "impersonate_user": "admin@corp.example"}).encode()).decode()
    options = make_options(tmp_path, idp_provider="google", idp_provider_url=None, idp_service_account=account)
    vendor = build_vendor(options.model_copy(update={"services": services}), options.first_provider, lambda: 0.0)
    assert vendor is not None
    assert vendor.issuer == issuer


def test_each_entry_has_a_directory_of_its_own(tmp_path: Path) -> None:
    keys = {"client_id": "gate", "client_secret": "secret", "domains": []}
    okta = {"id": "corp", "provider": "okta", "url": "https://corp.okta.com", "service_account": "c2VjcmV0LWtleQ==", **keys}
    gitlab = {"id": "partner", "provider": "gitlab", "service_account": '{"private_token": "k"}', "directory_url": "https://git.example"}
    plain = {"id": "plain", "provider": "oidc", "url": "https://idp.example", **keys}
    options = make_options(tmp_path, **dict.fromkeys(PLACEHOLDERS), identity_providers=[okta, {**gitlab, **keys}, plain])
    found = {id: build_vendor(options, provider, lambda: 0.0) for id, provider in options.providers.items()}
    assert {id: str(vendor) for id, vendor in found.items()} == {
        "corp": "okta at corp.okta.com",
        "partner": "gitlab at git.example",
        "plain": "None",
    }
    people = {id: vendor.build_member("1", "", "", {}).user for id, vendor in found.items() if vendor is not None}
    assert [(user.id, user.issuer) for user in people.values()] == [
        ("corp/1", "https://corp.okta.com"),
        ("partner/1", "https://gitlab.com"),
    ]


def test_without_credentials_there_is_none(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    assert build_vendor(options, options.first_provider, lambda: 0.0) is None
