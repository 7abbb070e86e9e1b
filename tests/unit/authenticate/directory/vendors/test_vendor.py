"""Helpers that vendors share: paths built from directory data, and the next page in a Link header."""

from typing import Any

import pytest

from authenticate.directory.vendors.vendor import Vendor, link_next, origin, segment
from authenticate.provider.provider_http import ProviderResponse
from databroker.records import DirectoryGroup
from tests.support.providers import a_provider


class AnyVendor(Vendor):
    kind = "google"
    build_credentials = fetch = look_up = lambda *arguments: None  # type: ignore[assignment]


@pytest.mark.parametrize(("text", "path"), [("a/b", "a%2Fb"), ("a|1", "a%7C1"), ("..", "%2E%2E"), (".", "%2E"), ("a?b#c", "a%3Fb%23c")])
def test_an_id_stays_one_part_of_a_path(text: str, path: str) -> None:
    assert segment(text) == path


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ('<https://a/x?after=1,2>; rel="self", <https://a/x?after=3>; rel="next"', "https://a/x?after=3"),
        ('<https://a/2>; rel="next", <https://a/9>; rel="last"', "https://a/2"),
        ("<https://a/2>; rel=next", "https://a/2"),
        ('<https://a/1>; rel="prev"', ""),
        ("", ""),
        ("garbage", ""),
    ],
)
def test_the_next_page(link: str, url: str) -> None:
    assert link_next(ProviderResponse(200, "", b"", {"link": link}), None) == url


def test_an_origin() -> None:
    assert origin("https://corp.okta.com/oauth2/default") == "https://corp.okta.com"


@pytest.mark.parametrize(
    ("is_known", "url", "issuer"),
    [
        (True, None, "https://accounts.google.com"),
        (False, None, ""),  # where people sign in only another process knows
        (True, "https://accounts.google.com", "https://accounts.google.com"),
    ],
)
def test_issuer_of_listed_users(is_known: bool, url: str | None, issuer: str) -> None:
    nothing: Any = None
    vendor = AnyVendor(a_provider("google", "google", url or ""), nothing, lambda: 0.0, knows_issuer=is_known)
    assert vendor.issuer == issuer
    member = vendor.build_member("1", "", "", {"g": DirectoryGroup("g", "Sales")})
    assert {each.issuer for each in (member.user, *member.groups)} == {issuer}
