"""Scopes of third-party servers are validated strictly, and rejected if ambiguous."""

from typing import Any

import pytest

from proxy.listener.http1.request_head import RequestRejected
from proxy.third_party_asgi.strict_scope import strict_scope
from proxy.websocket.handshake import parse_handshake

HOST = (b"host", b"app.example.com")
HTTP: dict[str, Any] = {
    "type": "http",
    "http_version": "1.1",
    "method": "GET",
    "scheme": "https",
    "path": "/a/b",
    "raw_path": b"/a/b",
    "query_string": b"",
    "root_path": "",
    "headers": [HOST],
    "client": ("192.0.2.7", 4711),
}
WEBSOCKET: dict[str, Any] = {**HTTP, "type": "websocket", "scheme": "wss", "subprotocols": []}
del WEBSOCKET["method"]

# Scopes in doubt, or of requests that our listener would not let in: what is changed, and the status.
REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "no raw path": ({"raw_path": None}, 400),
    "a raw path of text": ({"raw_path": "/a/b"}, 400),
    "two paths": ({"path": "/admin"}, 400),
    "an encoded slash that the path hides": ({"raw_path": b"/a%2Fc", "path": "/a/b"}, 400),
    "a query in the path": ({"raw_path": b"/a/b?x", "path": "/a/b?x"}, 400),
    "an absolute URL": ({"raw_path": b"http://evil.example/", "path": "http://evil.example/"}, 400),
    "an asterisk": ({"raw_path": b"*", "path": "*"}, 400),
    "a space in the path": ({"raw_path": b"/a b", "path": "/a b"}, 400),
    "a second request in the path": ({"raw_path": b"/ HTTP/1.1\r\n\r\n", "path": "/ HTTP/1.1\r\n\r\n"}, 400),
    "a fragment": ({"raw_path": b"/a#b", "path": "/a#b"}, 400),
    "a long URL": ({"raw_path": b"/" + b"a" * 9000, "path": "/" + "a" * 9000}, 414),
    "a query of text": ({"query_string": "x=1"}, 400),
    "a line end in the query": ({"query_string": b"x=1\r\nhost: evil.example"}, 400),
    "a root path": ({"root_path": "/gate"}, 400),
    "no host": ({"headers": []}, 400),
    "two hosts": ({"headers": [HOST, (b"host", b"evil.example")]}, 400),
    "a host that is none": ({"headers": [(b"host", b"a b")]}, 400),
    "a header in a value": ({"headers": [HOST, (b"x", b"1\r\nx-gate-jwt-assertion: forged")]}, 400),
    "a header in a name": ({"headers": [HOST, (b"x: 1\r\ny", b"2")]}, 400),
    "a colon in a name": ({"headers": [HOST, (b"x:y", b"2")]}, 400),
    "a name that is none": ({"headers": [HOST, (b"", b"2")]}, 400),
    "a NUL": ({"headers": [HOST, (b"x", b"\0")]}, 400),
    "a large header": ({"headers": [HOST, (b"x", b"a" * 20_000)]}, 431),
    "many headers": ({"headers": [HOST, *[(b"x", b"1")] * 101]}, 431),
    "two framings": ({"headers": [HOST, (b"content-length", b"1"), (b"transfer-encoding", b"chunked")]}, 400),
    "two lengths": ({"headers": [HOST, (b"content-length", b"1"), (b"content-length", b"2")]}, 400),
    "another coding": ({"headers": [HOST, (b"transfer-encoding", b"gzip, chunked")]}, 501),
    "an unknown scheme": ({"scheme": "gopher"}, 400),
    "HTTP/1.0": ({"http_version": "1.0"}, 426),
}
REFUSED_OF_HTTP: dict[str, tuple[dict[str, Any], int]] = {
    "a tunnel": ({"method": "CONNECT", "raw_path": b"db.example.com:5432", "path": "db.example.com:5432"}, 501),
    "TRACE": ({"method": "TRACE"}, 405),
    "a method in small letters": ({"method": "delete"}, 400),
    "a method with a line end": ({"method": "GET / HTTP/1.1\r\nx: y"}, 400),
    "a method that is none": ({"method": "GÉT"}, 400),
}


@pytest.mark.parametrize(
    ("scope", "changes", "status"),
    [
        *((scope, *refused) for scope in (HTTP, WEBSOCKET) for refused in REFUSED.values()),
        *((HTTP, *each) for each in REFUSED_OF_HTTP.values()),
    ],
    ids=[*(f"{kind}: {name}" for kind in ("http", "websocket") for name in REFUSED), *REFUSED_OF_HTTP],
)
def test_refuses_ambiguous_scope(scope: dict[str, Any], changes: dict[str, Any], status: int) -> None:
    with pytest.raises(RequestRejected) as refused:
        strict_scope({**scope, **changes})
    assert refused.value.status == status


def test_valid_scope_equals_that_of_the_listener() -> None:
    headers = [(b"Host", b"app.example.com"), (b"X_Gate_Jwt_Assertion", b"forged"), (b"Accept", b" */* "), (b"daphne-root-path", b"/x")]
    strict = strict_scope({**HTTP, "raw_path": b"/a%2Fb", "query_string": b"x=%2F", "headers": headers})
    assert (strict["path"], strict["raw_path"], strict["query_string"]) == ("/a/b", b"/a%2Fb", b"x=%2F")
    assert strict["headers"] == [HOST, (b"accept", b"*/*")]
    assert strict["gate.ignored_headers"] == [b"X_Gate_Jwt_Assertion", b"daphne-root-path"]
    assert (strict["scheme"], strict["client"], strict["root_path"]) == ("https", ["192.0.2.7", 4711], "")


def test_drops_unknown_scope_keys() -> None:
    claims = {
        "extensions": {"gate.tunnel": {"take_over": None}, "gate.tls": {"chain": [b"x"]}},
        "state": {},
        "user": "admin",
        "gate": object(),
    }
    strict = strict_scope({**HTTP, **claims, "gate.bare_query": True})
    assert strict["extensions"] == {}
    assert set(strict) == set(strict_scope(HTTP))


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (None, None),
        ((), None),
        ("ab", None),
        (("unix", 1), None),
        (("6.6.6.6", 0), None),  # uvicorn, of X-Forwarded-For
        (("6.6.6.6", None), None),
        (("::ffff:192.0.2.7", 1), ["192.0.2.7", 1]),
        (["2001:db8::1", 1], ["2001:db8::1", 1]),
    ],
)
def test_client_is_peer_or_none(client: Any, address: Any) -> None:
    assert strict_scope({**HTTP, "client": client})["client"] == address


@pytest.mark.parametrize(
    ("lines", "is_believed"),
    [
        ([(b"x-forwarded-for", b"192.0.2.7:4711")], False),
        ([(b"X-Forwarded-For", b"203.0.113.1,192.0.2.7:+04711 , 10.0.0.1")], False),
        ([(b"x-forwarded-for", b"203.0.113.1"), (b"x-forwarded-for", b"[192.0.2.7]:4711")], False),
        ([(b"x-forwarded-for", b"192.0.2.7"), (b"x-forwarded-port", b"4711")], False),  # Daphne
        ([(b"x-forwarded-for", b"203.0.113.1, 192.0.2.7"), (b"x-forwarded-port", b"443")], True),  # a proxy beside a proxy
        ([(b"x-forwarded-for", b"192.0.2.7")], True),
        ([(b"x-forwarded-for", b"203.0.113.1:4711, 192.0.2.70:4711")], True),
        ([(b"x-real-ip", b"192.0.2.7:4711")], True),
    ],
)
@pytest.mark.parametrize("scope", [HTTP, WEBSOCKET], ids=["http", "websocket"])
def test_client_address_from_forwarded_for_is_ignored(scope: Any, lines: list[Any], is_believed: bool) -> None:
    assert strict_scope({**scope, "headers": [HOST, *lines]})["client"] == (["192.0.2.7", 4711] if is_believed else None)


def test_a_cookie_of_http_2_is_one_line_again() -> None:
    headers = [HOST, (b"cookie", b"a=1"), (b"cookie", b"b=2")]
    assert strict_scope({**HTTP, "http_version": "2", "headers": headers})["headers"] == [HOST, (b"cookie", b"a=1; b=2")]
    assert strict_scope({**HTTP, "headers": headers})["headers"] == headers


def test_handshake_is_rebuilt_with_client_headers() -> None:
    of_the_client = [
        *((b"upgrade", b"spdy/3.1"), (b"connection", b"cookie"), (b"sec-websocket-key", b"x"), (b"sec-websocket-version", b"8")),
        *((b"sec-websocket-extensions", b"permessage-deflate"), (b"sec-websocket-protocol", b"forged")),
        *((b"origin", b"https://app.example.com"), (b"cookie", b"_gate=z")),
    ]
    strict = strict_scope({**WEBSOCKET, "headers": [HOST, *of_the_client], "subprotocols": ["chat", "other"]})
    offer = parse_handshake(strict["method"], strict["headers"], "https://app.example.com", [])
    assert (offer.protocols, offer.extensions) == (frozenset((b"chat", b"other")), frozenset())
    assert dict(strict["headers"])[b"cookie"] == b"_gate=z"
    keys = {dict(strict_scope(WEBSOCKET)["headers"])[b"sec-websocket-key"] for _ in range(9)}
    assert len(keys) == 9


def test_refuses_line_break_in_subprotocol() -> None:
    with pytest.raises(RequestRejected):
        strict_scope({**WEBSOCKET, "subprotocols": ["chat\r\nx-gate-jwt-assertion: forged"]})
