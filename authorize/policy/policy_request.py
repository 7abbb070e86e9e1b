"""Request to authorize, parsed into one canonical host and path."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from authorize.policy.mcp_message import McpMessage
from authorize.policy.paths.canonical import canonical_host, canonical_path
from foundation.errors import BadRequest
from foundation.web.message import Message

# Method of a tunnel to a host and port (RFC 9110 9.3.6).
CONNECT = "CONNECT"

# RFC 9110 9.1: methods are case-sensitive, and all registered ones are in upper case.  Applications convert them before they compare.
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Z]{1,32}")
_REFUSED_IN_QUERY = re.compile(rb"[\x00-\x20\x7f#]")


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Certificate that a client presented, with proof of its key, in the TLS handshake.

    `fingerprint` is the SHA-256 of the certificate in hexadecimal, and `spki_hash` that of its public key in base64.  `chain` is DER, the
    client's own first.  `verification_errors` has the error by the id of an authority, "" if it is valid.
    """

    fingerprint: str
    spki_hash: str
    subject: str
    chain: tuple[bytes, ...] = field(default=(), repr=False)
    verification_errors: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """Request to authorize.

    `host` is in lower case, without port or trailing dot.  `port` is None if it is the default of the scheme, never for a tunnel.

    `method` is empty if no trusted source reports it (forward auth).  A rule on it is then UNKNOWN and must deny.

    `path` is the canonical path (percent-encoded ASCII, dot segments resolved).  gate matches, authorizes and forwards this path.

    `source_ip` is the client address that trusted proxies report, "" if in doubt.  Names in `headers` are in lower case.

    `mcp` is the MCP message of a request to an MCP route, None if gate has not read it.  A rule on it is then UNKNOWN and must deny.

    `stream_session_id` is the session of the access token that opened a stream, if gate authorizes the stream again; no request has it.
    """

    method: str
    host: str
    port: int | None
    path: str
    query: str = ""
    origin: str = ""
    access_control_request_method: str = ""
    source_ip: str = ""
    headers: Sequence[tuple[bytes, bytes]] = field(default=(), repr=False, hash=False)
    client_certificate: ClientCertificate | None = None
    mcp: McpMessage | None = None
    stream_session_id: str = ""

    def with_message(self, message: McpMessage) -> "PolicyRequest":
        """Return the request with an MCP message.  It takes half the time of `replace`, which lists of tools pay for each item."""
        return PolicyRequest(
            self.method,
            self.host,
            self.port,
            self.path,
            self.query,
            self.origin,
            self.access_control_request_method,
            self.source_ip,
            self.headers,
            self.client_certificate,
            message,
            self.stream_session_id,
        )

    @property
    def is_tunnel(self) -> bool:
        """Return whether this is a TCP tunnel.  Tunnels match only TCP routes, and these match only tunnels."""
        return self.method == CONNECT

    @property
    def host_port(self) -> str:
        """Return the host, or `host:port` if the port is not the default, as in `aud` and in audiences of cookies."""
        return self.host if self.port is None else f"{self.host}:{self.port}"


def require_method(method: str) -> None:
    """Raise BadRequest for a method that an application may convert to another one: many treat `delete` as DELETE.

    Every caller, including the listener, must check methods here.
    """
    if not _METHOD.fullmatch(method):
        raise BadRequest(Message("the method is not an upper-case token, so the application could read it differently from gate"))


def parse_request(
    method: str,
    host: bytes,
    raw_path: bytes,
    query: bytes,
    default_ports: frozenset[int],
    *,
    origin: bytes = b"",
    access_control_request_method: bytes = b"",
    source_ip: str = "",
    headers: Sequence[tuple[bytes, bytes]] = (),
    client_certificate: ClientCertificate | None = None,
    mcp: McpMessage | None = None,
) -> PolicyRequest:
    """Parse raw bytes into a PolicyRequest.  This is the only place that builds one from a client's request.

    `query` has one character (latin-1) per byte, so that it is forwarded unchanged.  `method` is empty if unknown.

    Raises BadRequest if host, path or query is ambiguous.
    """
    if method:
        require_method(method)
    if method == "OPTIONS" and access_control_request_method:
        require_method(access_control_request_method.decode("latin-1"))
    if _REFUSED_IN_QUERY.search(query):
        raise BadRequest(Message("the query contains a character that must be percent-encoded"))
    name, port = canonical_host(host)
    if method == CONNECT and port is None:
        raise BadRequest(Message("a tunnel needs a host and a port"))
    return PolicyRequest(
        method=method,
        host=name,
        port=None if port in default_ports and method != CONNECT else port,
        path=canonical_path(raw_path),
        query=query.decode("latin-1"),
        origin=origin.decode("latin-1"),
        access_control_request_method=access_control_request_method.decode("latin-1"),
        source_ip=source_ip,
        headers=headers,
        client_certificate=client_certificate,
        mcp=mcp,
    )
