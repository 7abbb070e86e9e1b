"""Redirect URIs: exact comparison, except for the port of a loopback address; nothing that two parsers read differently."""

import pytest

from foundation.oauth_redirect_uris import matches_registered_uri, parse_redirect_uri

REGISTERED = ("https://client.example.com/cb", "https://client.example.com/cb?a=1", "http://127.0.0.1/cb", "http://[::1]:8000/cb")


@pytest.mark.parametrize(
    "uri",
    [
        *REGISTERED,
        "http://127.0.0.1:1/cb",
        "http://127.0.0.1:65535/cb",
        "http://[::1]/cb",
        "http://[::1]:9/cb",
    ],
)
def test_registered_uris_match(uri: str) -> None:
    assert matches_registered_uri(uri, REGISTERED)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://client.example.com",
        "https://client.example.com/",
        "https://client.example.com/cb/",
        "https://client.example.com/cb?a=2",
        "https://client.example.com/cb?",
        "https://client.example.com/cb#fragment",
        "https://client.example.com/cb/../evil",
        "https://client.example.com/%2e%2e/cb",
        "https://client.example.com:443/cb",
        "https://client.example.com:8443/cb",
        "https://CLIENT.example.com/cb",
        "HTTPS://client.example.com/cb",
        "http://client.example.com/cb",
        "https://client.example.com.evil.example/cb",
        "https://client.example.com@evil.example/cb",
        "https://evil.example/https://client.example.com/cb",
        "https://client.example.com\\@evil.example/cb",
        "https://client.example.com/cb\r\nLocation: https://evil.example",
        " https://client.example.com/cb",
        "https://client.example.com/cb%",
        "//client.example.com/cb",
        "javascript:alert(1)",
        "http://127.0.0.1:0/cb",
        "http://127.0.0.1:65536/cb",
        "http://127.0.0.1:080/cb",
        "http://127.0.0.1:8000/other",
        "http://127.0.0.1:8000/cb?x",
        "http://127.0.0.2/cb",
        "http://localhost:8000/cb",
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://[::ffff:127.0.0.1]/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://user@127.0.0.1/cb",
        "https://127.0.0.1/cb",
    ],
)
def test_other_uris_do_not_match(uri: str) -> None:
    assert not matches_registered_uri(uri, REGISTERED)


def test_only_ports_of_unencrypted_loopback_addresses_vary() -> None:
    assert not matches_registered_uri("http://localhost:8000/cb", ["https://localhost/cb"])
    assert not matches_registered_uri("https://localhost:8000/cb", ["https://localhost/cb"])


@pytest.mark.parametrize(
    "uri",
    [
        "custom-app://callback",
        "http://app.example.com/cb",
        "https://a/" + "x" * 600,
        "https://ünicode.example/cb",
        "https://-a/cb",
        "https://a/b/../cb",
        "https://a/./cb",
        "https://a/b/%2E%2e/cb",
        "https://a/cb%",
        "https://a/cb?b=%zz",
        "https://a:65536/cb",
    ],
)
def test_unusable_uris_cannot_be_registered(uri: str) -> None:
    assert parse_redirect_uri(uri) is None
    assert not matches_registered_uri(uri, [uri])


def test_parts() -> None:
    uri = parse_redirect_uri("http://[::1]:8000/cb?a=1")
    assert uri is not None
    assert (uri.host_port, uri.rest, uri.is_loopback) == ("[::1]:8000", "/cb?a=1", True)
    plain = parse_redirect_uri("https://a.example/cb")
    assert plain is not None
    assert (plain.host_port, plain.rest, plain.is_loopback) == ("a.example", "/cb", False)
