"""Okta: what only it does; the sign-in itself is in tests/contract/test_providers.py."""

from pathlib import Path

import pytest

from authenticate.provider.kinds.registry import provider_of
from tests.support.options import make_options


@pytest.mark.parametrize(
    "url", ["https://corp.okta.example", "https://corp.okta.example/oauth2/default", "https://corp.okta.example/oauth2/aus1"]
)
def test_an_organisation_and_its_authorization_servers_are_issuers_as_written(tmp_path: Path, url: str) -> None:
    assert provider_of(make_options(tmp_path, idp_provider="okta", idp_provider_url=url).first_provider).issuer == url


def test_people_of_okta_are_told_from_those_of_any_other_provider(tmp_path: Path) -> None:
    provider = provider_of(make_options(tmp_path, idp_provider="okta", idp_provider_url="https://corp.okta.example").first_provider)
    assert provider.user({"sub": "00u1"}, 1.0).id == "okta/00u1"
