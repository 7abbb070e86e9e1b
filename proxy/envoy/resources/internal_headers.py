"""Internal headers between gate and Envoy, which are never accepted from clients or sent to upstreams."""

from collections.abc import Mapping
from dataclasses import dataclass

from foundation.errors import BadRequest
from proxy.envoy.resources.bootstrap import TYPE, Json

PREFIX = "x-gate-edge-"
# Contains the secret if gate has authorized the request; without it no route matches.
AUTHORIZED = f"{PREFIX}judged"
# Destination cluster, and the upstream's Host and target; the Lua script sets the target.
CLUSTER, PATH, HOST = f"{PREFIX}cluster", f"{PREFIX}path", f"{PREFIX}host"
# Envoy's id of the request.
STREAM_ID = f"{PREFIX}number"
# Set if the response may be a stream; gate times out responses that are none (proxy/envoy/proxied/proxied_request.py).
MAY_STREAM = f"{PREFIX}may-stream"
# Response header rules of the route, for the response script.
RESPONSE_RULES = f"{PREFIX}response"
# Set if only Envoy knows whether there is a body. The script marks the request as authorized if there is none.
BODY_UNDECLARED = f"{PREFIX}bodiless"
# Set if Envoy must buffer the complete body. The script waits for it, and then marks the request as authorized.
BUFFER_BODY = f"{PREFIX}upload"
# Never set, so a route to the cluster in this header goes nowhere.
NO_CLUSTER = f"{PREFIX}nowhere"
# Information about the downstream connection, and headers that Envoy replaces or removes before the check.
DOWNSTREAM_INFO = f"{PREFIX}facts"
CLIENT_PROTO, CLIENT_CONNECTION = f"{PREFIX}proto", f"{PREFIX}connection"
# On local replies of Envoy: why there is no upstream response.
LOCAL_REPLY_REASON = f"{PREFIX}failed"
# Authenticates Envoy to gate.
TOKEN = f"{PREFIX}token"
# On calls of the response script.
SCRIPT = f"{PREFIX}script"
# Paths of its calls (response_filter.lua): get an error page, and report a response that is no stream.
ERROR_PAGE_PATH, NOT_STREAMING_PATH = "/instead", "/no-stream"
# All internal headers that can still be present when a route is selected; the others are removed before.
INTERNAL_HEADERS = (
    AUTHORIZED,
    CLUSTER,
    PATH,
    HOST,
    STREAM_ID,
    MAY_STREAM,
    RESPONSE_RULES,
    BODY_UNDECLARED,
    BUFFER_BODY,
    DOWNSTREAM_INFO,
    CLIENT_PROTO,
    CLIENT_CONNECTION,
)

_PREFIX = PREFIX.encode()
# Fields without blanks, except the last one, which the client controls.
_INFO_FORMAT = (
    "%DOWNSTREAM_REMOTE_ADDRESS% %DOWNSTREAM_DIRECT_REMOTE_ADDRESS% %PROTOCOL% %REQ(content-length)%/%REQ(transfer-encoding)%"
    " %REQUESTED_SERVER_NAME%"
)
_REPORTED = {
    DOWNSTREAM_INFO: _INFO_FORMAT,
    STREAM_ID: "%UNIQUE_ID%",
    CLIENT_PROTO: "%REQ(x-forwarded-proto)%",
    CLIENT_CONNECTION: "%REQ(connection)%",
}
_INFO_NAME, _STREAM_ID_NAME, _PROTO_NAME, _CONNECTION_NAME = (name.encode() for name in _REPORTED)

Address = tuple[str, int]


def is_internal(name: bytes) -> bool:
    """Return whether the header is internal."""
    return name.startswith(_PREFIX)


def early_header_mutation() -> Json:
    """Return the early header mutation, which removes internal and `x-envoy-` headers of the client and sets Envoy's own."""
    mutations: list[Json] = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in (PREFIX, "x-envoy-")]
    mutations += [
        {"append": {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}
        for key, value in _REPORTED.items()
    ]
    type_ = f"{TYPE}extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    return {"name": "envoy.http.early_header_mutation.header_mutation", "typed_config": {"@type": type_, "mutations": mutations}}


@dataclass(slots=True)  # not frozen: one is made for each request
class DownstreamInfo:
    """Envoy's information about the downstream connection. `peer` is its address, `client` that of a PROXY protocol header."""

    client: Address | None
    peer: Address | None
    is_http2: bool
    server_name: str | None
    length: bytes
    coding: bytes
    proto: bytes
    connection: bytes
    stream_id: str

    @classmethod
    def parse(cls, last: Mapping[bytes, bytes]) -> "DownstreamInfo":
        """Parse the information from the request headers. Raises BadRequest if it is missing."""
        fields = last.get(_INFO_NAME, b"").decode("latin-1").split(" ", 4)
        if len(fields) < 4:
            raise BadRequest("a request without Envoy's internal headers")
        client, peer, protocol, body, *name = fields
        length, _, coding = body.partition("/")
        return cls(
            client=parse_address(client),
            peer=parse_address(peer),
            is_http2=protocol == "HTTP/2",
            server_name=name[0] if name and name[0] not in _ABSENT else None,
            length=b"" if length in _ABSENT else length.encode(),
            coding=b"" if coding in _ABSENT else coding.encode(),
            proto=last.get(_PROTO_NAME, b""),
            connection=last.get(_CONNECTION_NAME, b""),
            stream_id=last.get(_STREAM_ID_NAME, b"").decode("latin-1"),
        )


_ABSENT = ("", "-")


def parse_address(text: str) -> Address | None:
    """Parse `127.0.0.1:5000` or `[::1]:5000`; return None for anything else."""
    host, colon, port = text.rpartition(":")
    return (host.strip("[]").removeprefix("::ffff:"), int(port)) if colon and port.isdigit() else None
