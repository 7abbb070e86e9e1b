"""Tokens that count as credentials, and their removal before forwarding."""

from pathlib import Path

import pytest

from authorize.authorizer import WithheldCredentials
from authorize.identity.request_credentials import has_gate_token, has_malformed_authorization, parse_authorization, parse_query_token
from proxy.rewriting.request_headers import RequestHeaderRules
from proxy.rewriting.target import strip_token
from tests.support.options import make_options
from tests.unit.authorize.builders import request


def with_headers(*values: bytes, **others: bytes):
    named = [(name.replace("_", "-").encode(), value) for name, value in others.items()]
    return request("/", headers=[*((b"authorization", value) for value in values), *named])


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (b"Gate abc", ("gate", "abc")),
        (b"Bearer Gate-abc", ("gate", "abc")),
        (b"bearer  gate-abc", ("gate", "abc")),
        (b"GATE   abc ", ("gate", "abc")),
        (b"Bearer abc.def-g_~+/=", ("bearer", "abc.def-g_~+/=")),
        (b"Basic dXNlcjpw", ("basic", "dXNlcjpw")),
        (b"Basic gate-dXNl", ("basic", "gate-dXNl")),
        (b"Gate", ("", "")),
        (b"Gate ", ("", "")),
        (b"Bearer Gate-", ("", "")),
        (b"Gate a b", ("", "")),
        (b"Gate a,b", ("", "")),
        (b"Gate\tabc", ("", "")),
        (b"Gate abc\xff", ("", "")),
        (b"", ("", "")),
    ],
)
def test_one_header_has_one_reading(value: bytes, read: tuple[str, str], tmp_path: Path) -> None:
    assert parse_authorization(with_headers(value)) == read
    if read[0] == "gate":
        left = RequestHeaderRules.for_delegation(make_options(tmp_path)).remaining_credentials(
            [(b"authorization", value)], WithheldCredentials.GATE
        )
        assert dict(left)[b"authorization"] == b""


def test_several_authorization_headers_are_ignored() -> None:
    assert parse_authorization(with_headers(b"Gate abc", b"Gate abc")) == ("", "")
    assert parse_authorization(with_headers(b"Basic eA==", b"Gate abc")) == ("", "")


@pytest.mark.parametrize(
    ("query", "token"),
    [
        ("gate_session=abc", "abc"),
        ("a=b&gate_session=abc&c", "abc"),
        ("gate_session=abc&gate_session=abc", ""),
        ("gate_session=abc&gate_session=", ""),
        ("GATE_SESSION=abc", ""),
        ("gate%5Fsession=abc", ""),
        ("a=1;gate_session=abc", ""),
        ("xgate_session=abc", ""),
        ("gate_session", ""),
        ("", ""),
    ],
)
def test_query_token_must_be_unique(query: str, token: str) -> None:
    assert parse_query_token(request(f"/?{query}")) == token
    if token:
        assert b"abc" not in strip_token(query.encode())


@pytest.mark.parametrize(
    "header",
    [
        *((b"sec-fetch-site", site) for site in (b"cross-site", b"same-site", b"same-origin", b"none", b"")),
        *((b"sec-fetch-mode", mode) for mode in (b"navigate", b"cors", b"no-cors", b"websocket")),
        (b"sec-fetch-dest", b"image"),
        (b"sec-ch-ua", b""),
        (b"accept", b"application/xhtml+xml,Text/HTML;q=0.9"),
        (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0"),
        (b"user-agent", b" mozilla/4.0"),
    ],
)
def test_browser_query_token_is_ignored(header: tuple[bytes, bytes]) -> None:
    assert parse_query_token(request("/?gate_session=abc", headers=[(b"x-a", b"1"), header])) == ""


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"accept", b"*/*"), (b"user-agent", b"curl/8.5.0")],
        [(b"accept", b"application/json"), (b"sec-websocket-key", b"x")],
        [(b"x-note", b"text/html"), (b"x-agent", b"Mozilla/5.0")],
    ],
)
def test_programmatic_token_is_accepted(headers: list[tuple[bytes, bytes]]) -> None:
    assert parse_query_token(request("/?gate_session=abc", headers=headers)) == "abc"


def test_tunnel_accepts_one_proxy_authorization() -> None:
    def read(method: str, *names: bytes) -> tuple[str, str]:
        return parse_authorization(request("/", "db.example.com:5432", method, headers=[(name, b"Gate abc") for name in names]))

    assert [read("CONNECT", name) for name in (b"authorization", b"proxy-authorization")] == [("gate", "abc")] * 2
    assert read("CONNECT", b"authorization", b"proxy-authorization") == ("", "")
    assert read("GET", b"proxy-authorization") == ("", "")


@pytest.mark.parametrize(
    ("target", "values", "is_gate_token", "unreadable"),
    [
        ("/", [], False, False),
        ("/", [b"Basic dXNlcjpw"], False, False),
        ("/", [b"Gate abc"], True, False),
        ("/", [b"Bearer gate_sa_ci_x"], True, False),
        ("/?gate_session=abc", [], True, False),
        ("/", [b"Gate a b"], False, True),
        ("/", [b"Gate abc", b"Gate abc"], False, True),
    ],
)
def test_detects_gate_tokens_and_malformed_headers(target: str, values: list[bytes], is_gate_token: bool, unreadable: bool) -> None:
    incoming = request(target, headers=[(b"x-a", b"1"), *((b"authorization", value) for value in values)])
    assert (has_gate_token(incoming), has_malformed_authorization(incoming)) == (is_gate_token, unreadable)
