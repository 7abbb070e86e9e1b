"""Request head as Envoy tells it, read as strictly as one of our own listener; and what of it is written anew."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from envoy.config.core.v3 import base_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.wrappers_pb2 import BoolValue

from authorize.rpc.attributes import chain_of
from foundation.errors import BadRequest
from proxy.envoy.listener import CARRIED, CLIENT_CONNECTION, CLIENT_PROTO, CLUSTER, HANDOFF_TOKEN, MAY_STREAM
from proxy.incoming import TLS
from proxy.listener.http1.head import parse_head
from proxy.rewriting.header_names import Header, Headers

_OVERWRITE = base_pb2.HeaderValueOption.HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD
_APPEND = base_pb2.HeaderValueOption.HeaderAppendAction.APPEND_IF_EXISTS_OR_ADD
_SHOWN = b"x-forwarded-client-cert"  # written by Envoy, which takes away what a client sends under this name
BETWEEN_US = frozenset(name.encode() for name in (CLUSTER, MAY_STREAM, HANDOFF_TOKEN, CARRIED, CLIENT_CONNECTION, CLIENT_PROTO))
_CHAIN = re.compile(rb'(?:^|;)Chain="([^"]*)"')
# What a connection is framed by is for Envoy to say, which carries the bytes.
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_ATTRIBUTES = "envoy.filters.http.ext_proc"


@dataclass(frozen=True, slots=True)
class EnvoyRequestHead:
    """Request head in Envoy's words: its headers as they are there (pseudo headers too), and who sent it."""

    headers: tuple[Header, ...]
    client: tuple[str, int] | None
    server_name: str | None
    has_body: bool

    @classmethod
    def of(cls, message: pb.ProcessingRequest) -> "EnvoyRequestHead":
        head = message.request_headers
        attributes = message.attributes[_ATTRIBUTES].fields
        return cls(
            headers=tuple([(each.key.encode("latin-1"), each.raw_value or each.value.encode("latin-1")) for each in head.headers.headers]),
            client=_address(attributes["source.address"].string_value),
            server_name=attributes["connection.requested_server_name"].string_value or None,
            has_body=not head.end_of_stream,
        )

    @property
    def last(self) -> Mapping[bytes, bytes]:
        return dict(self.headers)

    def scope(self, scheme: str) -> dict[str, Any]:
        """ASGI scope, as our own listener would make it of the same bytes; raises RequestRefused where it would refuse them."""
        last = self.last
        method, target, host = (last.get(name, b"") for name in (b":method", b":path", b":authority"))
        head = parse_head(b"".join([b"%b %b HTTP/1.1\r\n" % (method, target), b"host: %b\r\n" % host, *map(_line, self.from_client())]))
        if not head.raw_path.startswith(b"/"):
            raise BadRequest("the request target is no path")
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": head.method.decode(),
            "scheme": scheme,
            "path": unquote(head.raw_path.decode()),
            "raw_path": head.raw_path,
            "query_string": head.query_string,
            "root_path": "",
            "headers": head.headers,
            "client": list(self.client) if self.client else None,
            "extensions": self.extensions(scheme),
        }
        if head.has_bare_query:
            scope["gate.bare_query"] = True
        return scope

    def extensions(self, scheme: str) -> dict[str, Any]:
        return {TLS: {"server_name": self.server_name, "chain": self._shown()}} if scheme == "https" else {}

    def from_client(self) -> Headers:
        """Headers that the client sent, less the host; what Envoy added is left out, what it overwrote is as it was."""
        last = self.last
        kept = [pair for pair in self.headers if not _is_of_envoy(pair[0])]
        for told, name in ((CLIENT_PROTO, b"x-forwarded-proto"), (CLIENT_CONNECTION, b"connection")):
            if value := last.get(told.encode()):
                kept.append((name, value))
        return kept

    def _shown(self) -> tuple[bytes, ...]:
        """The certificates that the client showed, DER, its own first."""
        match = _CHAIN.search(self.last.get(_SHOWN, b""))
        return chain_of(match[1].decode("ascii", "replace")) if match else ()


def _is_of_envoy(name: bytes) -> bool:
    return name.startswith((b":", b"x-envoy-")) or name in BETWEEN_US or name in (_SHOWN, b"host", b"connection", b"x-forwarded-proto")


def _line(pair: Header) -> bytes:
    return b"%b: %b\r\n" % pair


def _address(text: str) -> tuple[str, int] | None:
    """`127.0.0.1:5000`, `[::1]:5000`; None for anything else."""
    host, colon, port = text.rpartition(":")
    return (host.strip("[]").removeprefix("::ffff:"), int(port)) if colon and port.isdigit() else None


def rewritten(before: Iterable[Header], after: Iterable[Header], *, left_alone: frozenset[bytes] = FRAMING) -> pb.HeaderMutation:
    """Header mutation from one to the other: every header that is not in `after` goes, but for framing and what begins with a colon."""
    old, new = by_name(before), by_name(after)
    mutation = pb.HeaderMutation()
    for name, values in new.items():
        if name not in left_alone and old.get(name) != values:
            for number, value in enumerate(values):
                set_header(mutation, name, value, action=_APPEND if number else _OVERWRITE)
    gone = [name for name in old if name not in new and name not in left_alone and not name.startswith(b":")]
    mutation.remove_headers.extend(name.decode("latin-1") for name in gone)
    return mutation


def set_header(mutation: pb.HeaderMutation, name: bytes, value: bytes, *, action: Any = _OVERWRITE) -> None:
    header = base_pb2.HeaderValue(key=name.decode("latin-1"), raw_value=value)
    if action == _APPEND:  # whose number is 0, which Envoy (1.40) takes for unsaid here, and then overwrites
        mutation.set_headers.add(header=header, append=BoolValue(value=True))
    else:
        mutation.set_headers.add(header=header, append_action=action)


def by_name(headers: Iterable[Header]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    if len(cookies := found.get(b"cookie", ())) > 1:
        found[b"cookie"] = [b"; ".join(cookies)]  # RFC 6265 5.4: one header
    return found
