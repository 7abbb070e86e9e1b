"""OneLogin: what only it does; the sign-in itself is in tests/contract/test_providers.py."""

from pathlib import Path

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.registry import provider_of
from tests.support.options import make_options


def test_groups_are_asked_for_by_their_scope_also_where_discovery_names_none(tmp_path: Path) -> None:
    provider = provider_of(make_options(tmp_path, idp_provider="onelogin", idp_provider_url=None).first_provider)
    for published in (frozenset(), frozenset({"openid"})):
        scopes = provider.asked_scopes(DiscoveryDocument("", "", "", "", frozenset(), scopes=published))
        assert "groups" in scopes
        assert "offline_access" in scopes


def test_there_is_one_address_for_everybody(tmp_path: Path) -> None:
    provider = provider_of(make_options(tmp_path, idp_provider="onelogin", idp_provider_url=None).first_provider)
    assert provider.issuer == "https://openid-connect.onelogin.com/oidc"
