"""ASGI application that redirects HTTP to HTTPS.

It also answers health checks of load balancers, and HTTP-01 challenges of the CA (RFC 8555 8.3).
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from authorize.policy.paths.canonical import canonical_host
from foundation.errors import BadRequest
from foundation.web.asgi_types import Headers, Send, respond
from foundation.web.problem_details import default_advice
from proxy.listener.tls.acme_state import AcmeState

HEALTH = ("/ping", "/healthz")
_CHALLENGE = re.compile(r"/\.well-known/acme-challenge/([A-Za-z0-9_-]{1,256})")
_UNSAFE = re.compile(rb"[^\x21-\x7e]|[\\\"<>^`{|}]")
_TEXT_HEADERS: Headers = [(b"content-type", b"text/plain; charset=utf-8")]


class HttpsRedirects:
    """ASGI application of the redirects. `headers` returns the response headers of the configuration in force."""

    def __init__(self, headers: Callable[[], Mapping[str, str]], acme_state: AcmeState | None = None):
        self._headers = headers
        self._acme_state = acme_state or AcmeState()

    async def __call__(self, scope: dict[str, Any], receive: object, send: Send) -> None:
        await respond(send, *await self._response(scope), head_only=scope["method"] == "HEAD")

    async def _response(self, scope: dict[str, Any]) -> tuple[int, Headers, bytes]:
        if scope["path"] in HEALTH and scope["method"] in ("GET", "HEAD"):
            return 200, _TEXT_HEADERS, b"OK\n"
        if scope["method"] == "CONNECT":
            return 405, [*_TEXT_HEADERS, (b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")], b"Tunnels begin with TLS.\n"
        try:
            if (
                self._acme_state.is_enabled
                and (found := _CHALLENGE.fullmatch(scope["path"]))
                and (key_authorization := await self._acme_response(scope, found[1]))
            ):
                return 200, [(b"content-type", b"application/octet-stream")], key_authorization.encode("ascii")
            location = _build_location(scope)
        except BadRequest as error:
            return error.status, _TEXT_HEADERS, f"This address can't be used: {error}.\n{default_advice(error.status)}\n".encode()
        # RFC 6797 7.2: HSTS is not sent over HTTP, because anyone on the network path could have added it.
        headers = [(name, value) for name, value in self._headers().items() if name.lower() != "strict-transport-security"]
        extra = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return 301, [(b"location", location), *extra, (b"connection", b"close")], b""

    async def _acme_response(self, scope: dict[str, Any], token: str) -> str | None:
        """Return the key authorization if exactly this token is pending for exactly this host, else None."""
        challenge = await asyncio.to_thread(self._acme_state.pending_challenge, _host(scope))  # it may read files
        if challenge is None or challenge.kind != "http-01" or challenge.token != token or scope["method"] not in ("GET", "HEAD"):
            return None
        return challenge.key_authorization


def _host(scope: dict[str, Any]) -> str:
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host, _ = canonical_host(hosts[0] if hosts else b"")
    return host


def _build_location(scope: dict[str, Any]) -> bytes:
    """Return the URL of the same path and query, percent-encoding only bytes that a URL cannot contain; the host has no port."""
    host = _host(scope)
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    target = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], scope["raw_path"] + query)
    return b"https://" + host.encode("ascii") + target
