"""A redirect leads to a host of gate, or is refused."""

import string
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authenticate.redirect_targets import RedirectTargets, parse
from tests.support.open_redirects import OPEN_REDIRECTS

OWN = "https://auth.example.com"
ROUTES = {"https://app.example.com", "https://other.example.com:8443", "https://x.wild.example.com"}
TARGETS = RedirectTargets(OWN)


@pytest.mark.parametrize("url", OPEN_REDIRECTS)
def test_open_redirects_are_refused(url: str) -> None:
    assert TARGETS.resolve(url, ROUTES.__contains__) is None


@pytest.mark.parametrize(
    ("url", "rebuilt"),
    [
        ("https://app.example.com", "https://app.example.com/"),
        ("https://app.example.com/a?b=c%20d&e=//evil.example#f", "https://app.example.com/a?b=c%20d&e=//evil.example#f"),
        ("HTTPS://APP.example.COM/A", "https://app.example.com/A"),
        ("https://app.example.com:443/", "https://app.example.com/"),
        ("https://app.example.com?a=b", "https://app.example.com/?a=b"),
        ("https://app.example.com//evil.example", "https://app.example.com//evil.example"),
        ("https://other.example.com:8443/x", "https://other.example.com:8443/x"),
        ("https://auth.example.com/.gate/admin/", "https://auth.example.com/.gate/admin/"),
        ("https://x.wild.example.com/", "https://x.wild.example.com/"),
    ],
)
def test_urls_of_gate_hosts_are_accepted_and_rebuilt(url: str, rebuilt: str) -> None:
    target = TARGETS.resolve(url, ROUTES.__contains__)
    assert target is not None
    assert str(target) == rebuilt


def test_the_authenticate_host_counts_with_its_scheme_and_port_only() -> None:
    def nowhere(_: str) -> bool:
        return False

    assert TARGETS.resolve(f"{OWN}/.gate/", nowhere)
    for url in ("http://auth.example.com/.gate/", "https://auth.example.com:8443/.gate/", f"{OWN}.evil.example/"):
        assert TARGETS.resolve(url, nowhere) is None


def test_a_url_that_is_too_long_to_remember_loses_its_query_first_and_then_its_path() -> None:
    target = parse("https://app.example.com/" + "p" * 40 + "?" + "q" * 40)
    assert target is not None
    assert target.truncated(200) == str(target)
    assert target.truncated(80) == "https://app.example.com/" + "p" * 40
    assert target.truncated(30) == "https://app.example.com/"


@given(
    st.text(alphabet=string.printable + "。／\\\x00é", max_size=40), st.sampled_from(["", "https://", "http://", "https://app.example.com"])
)
def test_accepted_target_parses_the_same_in_urlsplit(rest: str, beginning: str) -> None:
    target = TARGETS.resolve(beginning + rest, ROUTES.__contains__)
    if target is not None:
        parts = urlsplit(str(target))
        assert f"{parts.scheme}://{parts.netloc}" in ROUTES | {OWN}
        assert parts.netloc == target.host_port


def test_default_port_of_the_other_scheme_is_refused() -> None:
    """Code that compares origins may treat both default ports as absent, so such a URL must be refused earlier."""
    for url in ("https://app.example.com:80/", "http://app.example.com:443/"):
        assert TARGETS.resolve(url, lambda origin: True) is None
