"""Who came by http?  An ASGI application that leads everybody to https, and answers balancers that ask whether it is there."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from authorize.policy.canonical import canonical_host
from gateproject.errors import BadRequest

Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

HEALTH = ("/ping", "/healthz")
_UNSAFE = re.compile(rb"[^\x21-\x7e]|[\\\"<>^`{|}]")
_PLAIN: list[Header] = [(b"content-type", b"text/plain; charset=utf-8")]


class HttpsRedirects:
    """`headers` gives the response headers of the configuration in force."""

    def __init__(self, headers: Callable[[], Mapping[str, str]]):
        self._headers = headers

    async def __call__(self, scope: dict[str, Any], receive: object, send: Send) -> None:
        if scope["path"] in HEALTH and scope["method"] in ("GET", "HEAD"):
            await _answer(scope, send, 200, b"OK\n", _PLAIN)
            return
        if scope["method"] == "CONNECT":
            await _answer(
                scope, send, 405, b"Tunnels begin with TLS.\n", [*_PLAIN, (b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")]
            )
            return
        try:
            location = _location(scope)
        except BadRequest as error:
            await _answer(scope, send, error.status, f"This address can't be used: {error}.\n".encode(), _PLAIN)
            return
        # RFC 6797 7.2: what a browser is told of https by http, anybody on the way could have said.
        headers = [(name, value) for name, value in self._headers().items() if name.lower() != "strict-transport-security"]
        extra = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await _answer(scope, send, 301, b"", [(b"location", location), *extra, (b"connection", b"close")])


def _location(scope: dict[str, Any]) -> bytes:
    """The same path and query, byte for byte where a URL may have them; the host without its port."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host, _ = canonical_host(hosts[0] if hosts else b"")
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    target = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], scope["raw_path"] + query)
    return b"https://" + host.encode("ascii") + target


async def _answer(scope: dict[str, Any], send: Send, status: int, body: bytes, headers: list[Header]) -> None:
    framing = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*framing, *headers]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
