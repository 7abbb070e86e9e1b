"""URL that the front proxy asks about (class B18)."""

from dataclasses import replace

import pytest

from foundation.errors import BadRequest
from proxy.incoming_request import IncomingRequest
from proxy.planes.original_request import parse_original_request, parse_original_url
from tests.support.asgi import incoming_from

PORTS = frozenset({443})
ASK = "https://forward.example.com/verify"
PAGE = "https://app.example.com/page?a=1"
ENCODED = "https%3A%2F%2Fapp.example.com%2Fpage%3Fa%3D1"
TRAEFIK = {"x-forwarded-method": "GET", "x-forwarded-proto": "https", "x-forwarded-host": "app.example.com", "x-forwarded-uri": "/page?a=1"}


def original_request(query: str, *pairs: tuple[str, str], is_trusted: bool = False, **headers: str) -> IncomingRequest:
    incoming = incoming_from(f"{ASK}{query}", is_trusted=is_trusted)
    pairs_ = [*pairs, *((name.replace("_", "-"), value) for name, value in headers.items())]
    incoming.scope["headers"] += [(name.encode(), value.encode("latin-1")) for name, value in pairs_]
    incoming.headers |= {name.encode(): value.encode("latin-1") for name, value in pairs_}
    return incoming


def outcome_for(query: str, *pairs: tuple[str, str], is_trusted: bool = False, **headers: str) -> str:
    return parse_original_request(original_request(query, *pairs, is_trusted=is_trusted, **headers), PORTS).url


@pytest.mark.parametrize(
    ("query", "url"),
    [
        (f"?uri={PAGE}", PAGE),
        (f"?uri={ENCODED}", PAGE),
        (f"?uri={ENCODED.lower()}", PAGE),
        ("?uri=https%3A//app.example.com/page%3Fa%3D1", PAGE),
        ("?uri=https%3A%2F%2Fapp.example.com%2Fa%2520b%252Fc", "https://app.example.com/a%20b%2Fc"),
        ("?uri=https://app.example.com/a%20b%2Fc", "https://app.example.com/a%20b%2Fc"),
        ("?uri=https://app.example.com/%c3%bc", "https://app.example.com/%C3%BC"),
        ("?uri=https://app.example.com", "https://app.example.com/"),
        ("?uri=https://APP.example.com.:443/", "https://app.example.com/"),
        ("?uri=https://app.example.com:8443/x", "https://app.example.com:8443/x"),
        # Everything behind a plainly written URL is the client's own query, whatever it calls itself.
        ("?uri=https://app.example.com/x?a&uri=https://public.example.com/", "https://app.example.com/x?a&uri=https://public.example.com/"),
        ("?uri=https://app.example.com/x?next=https%253A%3F", "https://app.example.com/x?next=https%253A%3F"),
    ],
)
def test_the_uri_parameter_has_one_reading(query: str, url: str) -> None:
    assert outcome_for(query) == url


@pytest.mark.parametrize(
    "query",
    [
        *("", "?", "?uri", "?uri="),
        *("?URI=https://app.example.com/", "?x=1", f"?x=1&uri={PAGE}", f"?uri={ENCODED}&uri={ENCODED}", f"?uri={ENCODED}&x=1"),
        *("?uri=/page", "?uri=//app.example.com/", "?uri=app.example.com/"),
        *("?uri=ftp://app.example.com/", "?uri=file:///etc/passwd", "?uri=javascript:1"),
        *("?uri=https:app.example.com/", "?uri=https:/app.example.com/"),
        *("?uri=https:///app.example.com/", "?uri=https://", "?uri=https://?x"),
        *("?uri=https://u@app.example.com/", "?uri=https://u:p@app.example.com/", "?uri=https%3A%2F%2Fu%40app.example.com%2F"),
        *("?uri=https%3A%2F%2Fapp.example.com%2Fx%23y"),
        *("?uri=https%3A%2F%2Fapp.example.com%5C%40evil%2F", "?uri=https%3A%2F%2Fapp.example.com%2Fa%20b"),
        *("?uri=https%3A%2F%2Fapp.example.com%2F%0d%0aX", "?uri=https%3A%2F%2Fapp.example.com%2F%00", "?uri=https://app.example.com\\/"),
        *("?uri=https://app.example.com:80/", "?uri=http://app.example.com:443/"),
        *("?uri=https://app.example.com:0443/", "?uri=https://app.example.com:99999/"),
        *("?uri=https://app.example.com%2f/", "?uri=https://app.example.com,evil/"),
        *("?uri=https://[::1/", "?uri=https%253A%252F%252Fapp.example.com%252F"),
        # Written by halves: `/a%2520b` may be that path, or `/a%20b`.
        *("?uri=https://app.example.com/a%2520b", "?uri=https://app.example.com/admin%3Fx", "?uri=https://app.example.com/admin%23x"),
    ],
)  # fmt: skip
def test_everything_with_another_reading_is_refused(query: str) -> None:
    with pytest.raises(BadRequest):
        outcome_for(query)


@pytest.mark.parametrize(
    "path",
    ["/a/../b", "/a/./b", "/a/%2e%2e/b", "/%61dmin", "/a\\b", "/a%5cb", "/a%00", "/%", "/%zz", "/..;/b", "/a/..%2fb", "/%c0%ae", "/a/.."],
)
def test_a_path_that_the_front_proxy_would_forward_otherwise_is_refused(path: str) -> None:
    with pytest.raises(BadRequest):
        outcome_for("", x_original_url=f"https://app.example.com{path}", is_trusted=True)


@pytest.mark.parametrize(
    "headers",
    [
        TRAEFIK,
        {"x-original-url": PAGE},
        {**TRAEFIK, "x-original-url": PAGE, "x-original-uri": "/page?a=1", "x-original-method": "GET"},
        {**TRAEFIK, "x-forwarded-proto": "wss", "x-forwarded-host": "APP.example.com:443"},
    ],
)
@pytest.mark.parametrize("query", ["", f"?uri={PAGE}", f"?uri={ENCODED}"])
def test_trusted_peer_may_set_consistent_headers(query: str, headers: dict[str, str]) -> None:
    assert outcome_for(query, *headers.items(), is_trusted=True) == PAGE


@pytest.mark.parametrize("headers", [TRAEFIK, {"x-original-url": PAGE}])
def test_headers_of_other_peers_are_client_headers(headers: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match="it has no URL"):
        outcome_for("", *headers.items())
    other = "https://app.example.com/other"
    assert outcome_for(f"?uri={other}", *headers.items()) == other


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-original-url", "https://app.example.com/other"),
        ("x-original-url", "https://app.example.com/page"),
        ("x-original-url", "/page?a=1"),
        ("x-original-uri", "/other"),
        ("x-forwarded-uri", "/page"),
        ("x-forwarded-uri", ""),
        ("x-forwarded-host", "other.example.com"),
        ("x-forwarded-host", "app.example.com, other.example.com"),
        ("x-forwarded-host", "app.example.com:8443"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-proto", "https,http"),
        ("x-forwarded-prefix", "/page"),
        ("x-original-method", "POST"),
        ("x-forwarded-method", "get"),
        ("x-forwarded-method", ""),
    ],
)
def test_sources_that_differ_are_refused(name: str, value: str) -> None:
    for query in ("", f"?uri={PAGE}"):
        with pytest.raises(BadRequest):
            outcome_for(query, *TRAEFIK.items(), (name, value), is_trusted=True)


@pytest.mark.parametrize("missing", ["x-forwarded-proto", "x-forwarded-host", "x-forwarded-uri"])
def test_unnamed_part_is_not_guessed(missing: str) -> None:
    headers = {name: value for name, value in TRAEFIK.items() if name != missing}
    with pytest.raises(BadRequest, match="it has no URL"):
        outcome_for("", *headers.items(), is_trusted=True)


def test_the_method_is_known_from_a_trusted_peer_only() -> None:
    preflight = original_request(
        f"?uri={PAGE}", x_forwarded_method="OPTIONS", origin="https://o.example", access_control_request_method="PUT"
    )
    untrusted = parse_original_request(preflight, PORTS).request
    trusted = parse_original_request(replace(preflight, is_trusted=True), PORTS).request
    assert (trusted.method, trusted.origin, trusted.access_control_request_method) == ("OPTIONS", "https://o.example", "PUT")
    assert untrusted.method == ""


def test_a_url_that_a_browser_brings_back_is_read_the_same() -> None:
    assert parse_original_url(PAGE, PORTS).url == PAGE
    for url in ("", "/x", "https://app.example.com/ü", "https://u@app.example.com/", "javascript:alert(1)", "https://app.example.com/#x"):
        with pytest.raises(BadRequest):
            parse_original_url(url, PORTS)
