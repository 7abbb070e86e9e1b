"""Secrets are masked; URLs and hosts have one interpretation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.values import HostPort, SecretBytes, SecretText, Url, canonical_host, is_encrypted_or_local, is_loopback, parse_url
from tests.support.examples import examples


@pytest.mark.parametrize("secret", [SecretBytes(b"hunter2"), SecretText("hunter2")])
def test_secret_is_never_revealed_by_formatting(secret: SecretBytes | SecretText) -> None:
    texts = [repr(secret), str(secret), f"{secret}", f"{secret!r}", "%s" % secret, "{:>20}".format(secret), repr([secret])]  # noqa: UP031, UP032
    assert not any("hunter2" in text for text in texts)


def test_secret_can_be_used_like_its_value() -> None:
    assert SecretBytes(b"key") == b"key"
    assert type(SecretBytes(b"key").reveal()) is bytes
    assert SecretText("key").encode() == b"key"
    assert type(SecretText("key").reveal()) is str
    assert json.dumps(SecretText("key").reveal()) == '"key"'


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("https://App.Example.com", Url("https", "app.example.com")),
        ("HTTPS://app.example.com:443/", Url("https", "app.example.com", None, "/")),
        ("http://app:443", Url("http", "app", 443)),
        ("https://app.example.com.:8443/a?b=c", Url("https", "app.example.com", 8443, "/a", "b=c")),
        ("http://[::0001]:80/x", Url("http", "[::1]", None, "/x")),
        ("https://Bücher.example", Url("https", "xn--bcher-kva.example")),
    ],
)
def test_a_url_has_one_canonical_form(written: str, url: Url) -> None:
    assert parse_url(written) == url
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    "written",
    [
        "app.example.com",
        "https://",
        "//app.example.com",
        "https:app.example.com",
        "https:///path",
        "https://user:password@app.example.com",
        "https://app.example.com:0",
        "https://app.example.com:65536",
        "https://app.example.com:",
        "https://app.example.com:8443x",
        "https://app.example.com/#fragment",
        "https://app.example.com/a b",
        "https://app.example.com\\evil",
        "https://app.example.com/%zz",
        "https://app.example.com/\u0130",
        "https://app_1.example.com",
        "https://-app.example.com",
        "https://app..example.com",
        "https://*.example.com",
        "https://[::1%25eth0]",
        "https://[::1",
        "https://127.1",
        "https://2130706433",
        "https://0x7f.0.0.1",
        "https://1.2.3.0x4",
        "https://" + "a" * 64 + ".example.com",
        "https://" + "a." * 127 + "com",
    ],
)
def test_ambiguous_url_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_url(written)


def test_a_refused_password_is_not_repeated_in_the_message() -> None:
    with pytest.raises(ValueError, match="user name") as caught:
        parse_url("https://user:hunter2@app.example.com")
    assert "hunter2" not in str(caught.value)


def test_wildcard_is_the_complete_first_label_where_allowed() -> None:
    assert canonical_host("*.Example.com", wildcard=True) == "*.example.com"
    for written in ("*", "*.", "a*.example.com", "a.*.example.com", "*.*.example.com", "*example.com"):
        with pytest.raises(ValueError, match=r"\w"):
            canonical_host(written, wildcard=True)


def test_upstream_hosts_may_have_underscores() -> None:
    assert parse_url("http://my_app:8000", underscore=True).host == "my_app"


@given(st.text(max_size=300))
@examples(40)
def test_any_text_is_a_canonical_url_or_a_value_error(text: str) -> None:
    for written in (text, f"https://{text}"):
        try:
            url = parse_url(written, wildcard=True)
        except ValueError:
            continue
        assert parse_url(str(url), wildcard=True) == url


def test_ipv6_listen_address_is_displayed_with_brackets() -> None:
    assert str(HostPort("::1", 443)) == "[::1]:443"
    assert str(HostPort("", 443)) == ":443"


@pytest.mark.parametrize(
    "text", ["0.0.0.0", "10.0.0.1", "127.0.0.1", "255.255.255.255", "a.b-c.example", "xn--bcher-kva.example", "a1.b2c"]
)
def test_canonical_text_is_unchanged(text: str) -> None:
    assert canonical_host(text) == text


@pytest.mark.parametrize("text", ["256.0.0.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4a.5", "10.0.0.1\n", "1.2.3.+4", "a.1", "0x7f.1"])
def test_values_resembling_ipv4_addresses_are_addresses_or_no_host(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|address"):
        canonical_host(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a." * 127 + "com", "253 characters"),
        ("b\u00fccher." * 20 + "example", "international"),  # longer than 253 characters as A-labels only
        ("[::1", "IPv6"),
        ("[::g]", "IPv6"),
        ("a*b.example", "wildcard"),
    ],
)
def test_an_invalid_host_is_refused_with_its_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        canonical_host(text)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True),
        ("app.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("::1", True),
        ("app.example.com", False),
        ("notlocalhost", False),
        ("localhost.example.com", False),
        ("10.0.0.1", False),
        ("[::2]", False),
        ("0.0.0.0", False),
    ],
)
def test_plain_http_is_protected_on_this_machine_only(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local
    assert is_encrypted_or_local("http", host) is is_local
    assert is_encrypted_or_local("https", host)
    assert not is_encrypted_or_local("ftp", host)
