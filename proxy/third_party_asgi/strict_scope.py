"""Scope of an ASGI server that is not ours, read as strictly as our listener reads bytes: by the same parser, or refused."""

import base64
import os
import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

from foundation.web.asgi_types import Header
from proxy.listener.http1.request_head import HTTP_1_1_REQUIRED, RequestHead, RequestRejected, parse_head
from proxy.websocket.handshake import PREFIX

_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
# In what a server has taken apart, none of these can be a byte that a client sent: they would be parts of another message.
_SEPARATORS = re.compile(rb"[\r\n\0]")
_OF_THE_HANDSHAKE = (b"connection", b"upgrade")


# enforcement-point: Requests: Requests parsed by another ASGI server
def strict_scope(scope: Mapping[str, Any]) -> dict[str, Any]:
    """Scope as our listener would give it, of "http" or of "websocket" (the GET of its handshake).

    Raises RequestRejected for what our listener would not let in either, and where the scope leaves in doubt what the client has sent.
    Nothing else of the scope goes on: no extension, no state, no root path.
    """
    is_websocket = scope["type"] == "websocket"
    if scope.get("root_path"):
        raise RequestRejected(400, "This server has a root path, and gate has whole hosts.")
    if not is_websocket and scope["method"] == "CONNECT":
        raise RequestRejected(501, "This server can't hand a connection over.")
    version = str(scope.get("http_version") or "1.1")
    if version in ("0.9", "1.0"):
        raise RequestRejected(426, HTTP_1_1_REQUIRED)
    headers = _handshake_headers(scope) if is_websocket else _with_one_cookie(scope["headers"], version)
    head = _parsed("GET" if is_websocket else scope["method"], _target(scope), headers)
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
    """Target of the request line.  `path` alone would not do: in it `%2F` and `/` are one."""
    raw_path, query = scope.get("raw_path"), scope.get("query_string") or b""
    if not isinstance(raw_path, bytes) or not isinstance(query, bytes):
        raise RequestRejected(400, "This server does not say which path the client wrote.")
    if not raw_path.startswith(b"/") or b"?" in raw_path or unquote(raw_path.decode("latin-1")) != scope.get("path"):
        raise RequestRejected(400, "This server names two paths.")
    return raw_path + (b"?" + query if query else b"")


def _parsed(method: object, target: bytes, headers: Iterable[Header]) -> RequestHead:
    lines = [(str(method).encode("ascii", "replace") + b" " + target + b" HTTP/1.1", b"")]
    lines += [(name + b":", value) for name, value in headers]
    text = [name + value for name, value in lines]
    if any(_SEPARATORS.search(line) for line in text) or any(name.find(b":") != len(name) - 1 for name, _ in lines[1:]):
        raise RequestRejected(400, "A header line is malformed.")
    return parse_head(b"".join(line + b"\r\n" for line in text))


def _with_one_cookie(headers: Iterable[Header], version: str) -> list[Header]:
    """RFC 9113 8.2.3: HTTP/2 may spread a Cookie over several lines, which are one again in HTTP/1.1."""
    if version.startswith("1"):
        return list(headers)
    cookies = [value for name, value in headers if name == b"cookie"]
    return [pair for pair in headers if pair[0] != b"cookie"] + ([(b"cookie", b"; ".join(cookies))] if cookies else [])


def _handshake_headers(scope: Mapping[str, Any]) -> list[Header]:
    """Headers of a handshake of ours: the server has answered for the client's own, compression included."""
    kept = [pair for pair in scope["headers"] if pair[0].lower() not in _OF_THE_HANDSHAKE and not pair[0].lower().startswith(PREFIX)]
    ours = [(b"upgrade", b"websocket"), (b"connection", b"Upgrade"), (b"sec-websocket-version", b"13")]
    ours.append((b"sec-websocket-key", base64.b64encode(os.urandom(16))))
    if protocols := scope.get("subprotocols"):
        ours.append((b"sec-websocket-protocol", ", ".join(protocols).encode("latin-1", "replace")))
    return _with_one_cookie(kept, str(scope.get("http_version") or "1.1")) + ours


def _scheme(scope: Mapping[str, Any]) -> str:
    scheme = _SCHEMES.get(scope.get("scheme") or "http")
    if scheme is None:
        raise RequestRejected(400, "This server names an unknown scheme.")
    return scheme


def _client(scope: Mapping[str, Any]) -> list[Any] | None:
    """[host, port] of the peer.  None where there is none, and where the server has put a client's word for it."""
    client = scope.get("client")
    if not client or len(client) != 2 or not client[1] or _is_named(str(client[0]), scope["headers"]):
        return None
    try:
        address = ip_address(str(client[0]).partition("%")[0])
    except ValueError:
        return None
    return [str(getattr(address, "ipv4_mapped", None) or client[0]), client[1]]


def _is_named(host: str, headers: Iterable[Header]) -> bool:
    """Whether X-Forwarded-For names this host with a port: who believes that takes both for the peer's.  Without one, the port is 0.

    uvicorn reads `host:port` in any place, Daphne the first host and X-Forwarded-Port.
    """
    lines = [(name.lower(), value.decode("latin-1")) for name, value in headers]
    hops = [hop.strip() for name, value in lines if name == b"x-forwarded-for" for hop in value.split(",")]
    has_port = any(name == b"x-forwarded-port" for name, _ in lines)
    return (has_port and hops[:1] == [host]) or any(hop.startswith((f"{host}:", f"[{host}]:")) for hop in hops)
