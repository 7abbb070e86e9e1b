"""What is the same for many vendors: paths made of what a directory says, and the next page of a Link header."""

import pytest

from authenticate.directory.vendor import link_next, origin, segment
from authenticate.provider_http import Answer


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
    assert link_next(Answer(200, "", b"", {"link": link}), None) == url


def test_an_origin() -> None:
    assert origin("https://corp.okta.com/oauth2/default") == "https://corp.okta.com"
