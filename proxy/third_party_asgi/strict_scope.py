"""Strict validation of a third-party ASGI server's scope, with the parser of gate's listener."""

import base64
import os
import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

from foundation.web.asgi_types import Header
from proxy.listener.http1.request_head import HTTP_1_1_REQUIRED, RequestHead, RequestRejected, parse_head
from proxy.websocket.handshake import SEC_WEBSOCKET

_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
# These bytes in a parsed field would change the message when it is serialized again.
_SEPARATORS = re.compile(rb"[\r\n\0]")
_HANDSHAKE_HEADERS = (b"connection", b"upgrade")


# enforcement-point: Requests: Requests parsed by another ASGI server
def strict_scope(scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the "http" scope that gate's listener would create; for a "websocket" scope, that of its handshake.

    Extensions, state and root path of the original scope are dropped. Raises RequestRejected for requests that the listener would
    reject, and if the scope is ambiguous about what the client sent.
    """
    is_websocket = scope["type"] == "websocket"
    if scope.get("root_path"):
        raise RequestRejected(400, "This server has a root path, and gate has whole hosts.")
    if not is_websocket and scope["method"] == "CONNECT":
        raise RequestRejected(501, "This server can't hand a connection over.")
    version = str(scope.get("http_version") or "1.1")
    if version in ("0.9", "1.0"):
        raise RequestRejected(426, HTTP_1_1_REQUIRED)
    headers = _handshake_headers(scope) if is_websocket else _join_cookies(scope["headers"], version)
    head = _parse_head("GET" if is_websocket else scope["method"], _target(scope), headers)
    strict: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": head.method.decode("ascii"),
        "scheme": _scheme(scope),
        "path": unquote(head.raw_path.decode("ascii")),
        "raw_path": head.raw_path,
        "query_string": head.query_string,
        "root_path": "",
        "headers": head.headers,
        "client": _client(scope),
        "server": None,
        "extensions": {},
    }
    if head.ignored_header_names:
        strict["gate.ignored_headers"] = head.ignored_header_names
    return strict


def _target(scope: Mapping[str, Any]) -> bytes:
    """Return the request target. `path` is not sufficient, because `%2F` and `/` are the same in it."""
    raw_path, query = scope.get("raw_path"), scope.get("query_string") or b""
    if not isinstance(raw_path, bytes) or not isinstance(query, bytes):
        raise RequestRejected(400, "This server does not say which path the client wrote.")
    if not raw_path.startswith(b"/") or b"?" in raw_path or unquote(raw_path.decode("latin-1")) != scope.get("path"):
        raise RequestRejected(400, "This server names two paths.")
    return raw_path + (b"?" + query if query else b"")


def _parse_head(method: object, target: bytes, headers: Iterable[Header]) -> RequestHead:
    lines = [(str(method).encode("ascii", "replace") + b" " + target + b" HTTP/1.1", b"")]
    lines += [(name + b":", value) for name, value in headers]
    text = [name + value for name, value in lines]
    if any(_SEPARATORS.search(line) for line in text) or any(name.find(b":") != len(name) - 1 for name, _ in lines[1:]):
        raise RequestRejected(400, "A header line is malformed.")
    return parse_head(b"".join(line + b"\r\n" for line in text))


def _join_cookies(headers: Iterable[Header], version: str) -> list[Header]:
    """Join several Cookie lines of HTTP/2 into one, as HTTP/1.1 requires (RFC 9113 8.2.3)."""
    if version.startswith("1"):
        return list(headers)
    cookies = [value for name, value in headers if name == b"cookie"]
    return [pair for pair in headers if pair[0] != b"cookie"] + ([(b"cookie", b"; ".join(cookies))] if cookies else [])


def _handshake_headers(scope: Mapping[str, Any]) -> list[Header]:
    """Return the headers of a new handshake, because the server has handled the client's own, including compression."""
    client_headers = [
        pair for pair in scope["headers"] if pair[0].lower() not in _HANDSHAKE_HEADERS and not pair[0].lower().startswith(SEC_WEBSOCKET)
    ]
    handshake = [(b"upgrade", b"websocket"), (b"connection", b"Upgrade"), (b"sec-websocket-version", b"13")]
    handshake.append((b"sec-websocket-key", base64.b64encode(os.urandom(16))))
    if protocols := scope.get("subprotocols"):
        handshake.append((b"sec-websocket-protocol", ", ".join(protocols).encode("latin-1", "replace")))
    return _join_cookies(client_headers, str(scope.get("http_version") or "1.1")) + handshake


def _scheme(scope: Mapping[str, Any]) -> str:
    scheme = _SCHEMES.get(scope.get("scheme") or "http")
    if scheme is None:
        raise RequestRejected(400, "This server names an unknown scheme.")
    return scheme


def _client(scope: Mapping[str, Any]) -> list[Any] | None:
    """Return [host, port] of the peer, or None if it is missing or may come from X-Forwarded-For."""
    client = scope.get("client")
    if not client or len(client) != 2 or not client[1] or _is_from_forwarded_for(str(client[0]), scope["headers"]):
        return None
    try:
        address = ip_address(str(client[0]).partition("%")[0])
    except ValueError:
        return None
    return [str(getattr(address, "ipv4_mapped", None) or client[0]), client[1]]


def _is_from_forwarded_for(host: str, headers: Iterable[Header]) -> bool:
    """Return whether the server may have taken this host, with a port, from X-Forwarded-For. Without a port there, it sets 0.

    uvicorn reads `host:port` at any position, Daphne the first host and X-Forwarded-Port.
    """
    lines = [(name.lower(), value.decode("latin-1")) for name, value in headers]
    hops = [hop.strip() for name, value in lines if name == b"x-forwarded-for" for hop in value.split(",")]
    has_port = any(name == b"x-forwarded-port" for name, _ in lines)
    return (has_port and hops[:1] == [host]) or any(hop.startswith((f"{host}:", f"[{host}]:")) for hop in hops)
