"""Auth0: what only it does; the sign-in itself is in tests/contract/test_providers.py."""

from pathlib import Path

import pytest

from authenticate.provider.kinds.registry import provider_of
from tests.support.options import make_options


@pytest.mark.parametrize("url", ["https://corp.eu.auth0.example", "https://corp.eu.auth0.example/", "https://corp.eu.auth0.example//"])
def test_the_issuer_ends_with_one_slash_however_it_is_written(tmp_path: Path, url: str) -> None:
    assert (
        provider_of(make_options(tmp_path, idp_provider="auth0", idp_provider_url=url).first_provider).issuer
        == "https://corp.eu.auth0.example/"
    )


def test_a_subject_with_a_bar_is_kept_whole(tmp_path: Path) -> None:
    provider = provider_of(make_options(tmp_path, idp_provider="auth0", idp_provider_url="https://corp.eu.auth0.example").first_provider)
    assert provider.user({"sub": "google-oauth2|1"}, 1.0).id == "auth0/google-oauth2|1"
