"""A provider of which only the discovery document is known: what it publishes is asked for, and what is known of a kind counts."""

from pathlib import Path

import pytest

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.registry import provider_of
from databroker.records import SessionRecord
from tests.support.options import make_options

ANY = DiscoveryDocument("https://idp.example", "", "https://idp.example/token", "", frozenset())


def test_only_scopes_that_the_provider_has_are_asked_for_by_default(tmp_path: Path) -> None:
    published = DiscoveryDocument("", "", "", "", frozenset(), scopes=frozenset({"email", "phone"}))
    assert provider_of(make_options(tmp_path).first_provider).asked_scopes(published) == ("openid", "email")
    assert provider_of(make_options(tmp_path, idp_scopes=["openid", "x"]).first_provider).asked_scopes(published) == ("openid", "x")
    assert "offline_access" in provider_of(make_options(tmp_path).first_provider).asked_scopes(ANY)


@pytest.mark.parametrize(
    ("kind", "hints"),
    [
        ("oidc", ["refresh_token", "access_token"]),
        ("okta", ["refresh_token", "access_token"]),
        ("auth0", ["refresh_token", "access_token"]),
        ("gitlab", ["refresh_token", "access_token"]),
        ("google", []),
    ],
)
def test_only_tokens_whose_end_is_this_session_s_alone_are_revoked(tmp_path: Path, kind: str, hints: list[str]) -> None:
    session = SessionRecord("s", "x/1", "1", kind, 1.0, 2.0, access_token="at", refresh_token="rt")
    provider = provider_of(make_options(tmp_path, idp_provider=kind).first_provider)
    assert [hint for _, hint in provider.revocable_tokens(session)] == hints  # type: ignore[attr-defined]
