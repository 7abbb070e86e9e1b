"""GitLab: what only it does; the sign-in itself is in tests/contract/test_providers.py."""

from pathlib import Path

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.registry import provider_of
from tests.support.options import make_options

PUBLISHED = DiscoveryDocument("", "", "", "", frozenset(), scopes=frozenset({"openid", "offline_access"}))


def test_offline_access_is_never_asked_for(tmp_path: Path) -> None:
    """GitLab refuses a sign-in that asks for a scope it does not know, and gives a refresh token anyway."""
    provider = provider_of(make_options(tmp_path, idp_provider="gitlab", idp_provider_url=None).first_provider)
    assert "offline_access" not in provider.asked_scopes(PUBLISHED)
    assert {"openid", "api"} <= set(provider.asked_scopes(PUBLISHED))


def test_a_server_of_ones_own_is_the_issuer(tmp_path: Path) -> None:
    url = "https://git.corp.example"
    assert provider_of(make_options(tmp_path, idp_provider="gitlab", idp_provider_url=url).first_provider).issuer == url
