"""For any headers of a trusted proxy, all forwarding headers agree on client, scheme, host and port."""

import pytest

from proxy.client_address import TrustedPeers
from proxy.rewriting.forwarded_headers import FORWARDED_HEADER_CACHE

TRUSTED = TrustedPeers(["10.0.0.0/8"])
PEER = "10.0.0.1"


def build(received: dict[str, str | list[str]], *, append: bool = True, trusted: TrustedPeers | None = TRUSTED) -> dict[str, str]:
    lines = [(name, value) for name, values in received.items() for value in ([values] if isinstance(values, str) else values)]
    pairs = tuple((name.encode(), value.encode()) for name, value in lines)
    result = FORWARDED_HEADER_CACHE[PEER, "http", b"app.example.com", pairs, append, trusted]
    return {name.decode(): value.decode() for name, value in result}


@pytest.mark.parametrize(
    ("received", "client", "scheme", "host", "port"),
    [
        ({}, PEER, "http", "app.example.com", "80"),
        ({"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}, "203.0.113.9", "https", "app.example.com", "443"),
        ({"x-forwarded-proto": "https", "x-forwarded-port": "80"}, PEER, "https", "app.example.com", "443"),
        ({"x-forwarded-proto": "https", "x-forwarded-port": "8443"}, PEER, "https", "app.example.com", "8443"),
        ({"x-forwarded-port": "123456"}, PEER, "http", "app.example.com", "80"),
        ({"x-forwarded-host": "123"}, PEER, "http", "123", "80"),
        ({"x-forwarded-host": "[::1]"}, PEER, "http", "[::1]", "80"),
        ({"x-forwarded-port": "no port"}, PEER, "http", "app.example.com", "80"),
        ({"x-forwarded-host": "a.example:8443", "x-forwarded-port": "443"}, PEER, "http", "a.example:8443", "8443"),
        ({"x-forwarded-host": "x.example, a.example"}, PEER, "http", "a.example", "80"),
        ({"x-forwarded-host": "a.example/;x=y"}, PEER, "http", "app.example.com", "80"),
        ({"x-forwarded-proto": "wss"}, PEER, "wss", "app.example.com", "443"),
        ({"x-forwarded-proto": ["http", "HTTPS"]}, PEER, "https", "app.example.com", "443"),
        ({"x-forwarded-proto": "gopher"}, PEER, "http", "app.example.com", "80"),
        ({"x-real-ip": "203.0.113.9"}, "203.0.113.9", "http", "app.example.com", "80"),
        ({"x-real-ip": "nobody"}, PEER, "http", "app.example.com", "80"),
        ({"x-real-ip": "6.6.6.6", "x-forwarded-for": "6.6.6.6, 203.0.113.9, 10.0.0.2"}, "203.0.113.9", "http", "app.example.com", "80"),
        ({"x-forwarded-for": ["6.6.6.6", "203.0.113.9:51234"]}, "203.0.113.9", "http", "app.example.com", "80"),
        ({"x-forwarded-for": "6.6.6.6, unknown, 10.0.0.2"}, "10.0.0.2", "http", "app.example.com", "80"),
        ({"forwarded": "for=203.0.113.9;proto=https;host=a.example"}, "203.0.113.9", "https", "a.example", "443"),
        ({"forwarded": ['for=6.6.6.6, for="[2001:db8::1]:443"', "for=10.0.0.2;by=x"]}, "2001:db8::1", "http", "app.example.com", "80"),
        ({"forwarded": 'host="a.example;for=6.6.6.6"'}, PEER, "http", "app.example.com", "80"),
        ({"forwarded": "for=203.0.113.9;proto"}, PEER, "http", "app.example.com", "80"),
        ({"forwarded": "for=6.6.6.6;proto=http", "x-forwarded-proto": "https"}, PEER, "https", "app.example.com", "443"),
    ],
)
def test_six_headers_name_one_client(received: dict[str, str | list[str]], client: str, scheme: str, host: str, port: str) -> None:
    result = build(received)
    assert result["x-real-ip"] == client
    assert client in result["x-forwarded-for"]
    assert (result["x-forwarded-proto"], result["x-forwarded-host"], result["x-forwarded-port"]) == (scheme, host, port)
    node = f'"[{client}]"' if ":" in client else client
    is_default = (scheme, port) in (("http", "80"), ("https", "443"), ("wss", "443")) or host.endswith(f":{port}")
    assert result["forwarded"] == f'for={node};host="{host if is_default else f"{host}:{port}"}";proto={scheme}'


def test_appends_the_peer_to_the_address_chain() -> None:
    assert build({"x-forwarded-for": ["", "203.0.113.9"]})["x-forwarded-for"] == "203.0.113.9, 10.0.0.1"
    assert build({"x-forwarded-for": ["203.0.113.9", "10.0.0.2"]})["x-forwarded-for"] == "203.0.113.9, 10.0.0.2, 10.0.0.1"
    assert build({"forwarded": 'for="203.0.113.9:1", for=10.0.0.2'})["x-forwarded-for"] == "203.0.113.9, 10.0.0.2, 10.0.0.1"


def test_without_append_forwarded_is_sent_only_if_received() -> None:
    assert "forwarded" not in build({"x-forwarded-for": "203.0.113.9"}, append=False)
    result = build({"forwarded": "for=203.0.113.9"}, append=False)
    assert (result["x-forwarded-for"], result["forwarded"]) == ("203.0.113.9", 'for=203.0.113.9;host="app.example.com";proto=http')


def test_omits_unknown_client_and_invalid_host() -> None:
    received = ((b"x-forwarded-for", b"203.0.113.9"),)
    assert dict(FORWARDED_HEADER_CACHE["", "http", b"a", received, True, TRUSTED])[b"x-forwarded-for"] == b"203.0.113.9"
    result = dict(FORWARDED_HEADER_CACHE["", "http", b'a"b', (), True, None])
    assert result == {
        b"x-forwarded-proto": b"http",
        b"x-forwarded-host": b'a"b',
        b"x-forwarded-port": b"80",
        b"forwarded": b"for=unknown;proto=http",
    }
