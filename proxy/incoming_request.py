"""Incoming request: its ASGI scope, its canonical interpretation, and the headers that determine the form of the response."""

import os
import time
from dataclasses import dataclass
from typing import Any

from authorize.identity.client_certificates import parse_certificate
from authorize.policy.paths.canonical import canonical_host
from authorize.policy.policy_request import CONNECT, ClientCertificate, PolicyRequest
from foundation.errors import BadRequest
from foundation.web.asgi_types import Receive
from foundation.web.brand import EMPTY_SITE_INFO, SiteInfo
from foundation.web.message import Message

# ASGI extension of the listener: the server name of the TLS connection (None: none), and the client's certificate chain in DER.
TLS_EXTENSION = "gate.tls"

# The `enctype` values of a form (HTML, 4.10.19.6).
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


@dataclass(slots=True)  # not frozen, because one is created per request, and frozen ones cost three times as much
class IncomingRequest:
    """Incoming request.  `headers` has the last value of each lower-case name; `cookie_headers` has every Cookie header.

    `started_at` is monotonic.  `response_reason` is the reason in gate's own response, for the log.  `site` is for gate's pages.
    `client_address` is for logs and sessions; policy rules compare the address in `request`.
    `is_trusted`: the peer is a trusted proxy, so its forwarding headers are valid.
    `is_mcp`: the request is for an MCP endpoint; `rpc_id` is the id of its message.  `body` is the complete body, if gate has read it.
    `is_mcp_preflight`: gate answers it as a CORS preflight request.  `needs_token`: a page may make it with an access token only.
    """

    scope: dict[str, Any]
    request: PolicyRequest
    headers: dict[bytes, bytes]
    cookie_headers: list[bytes]
    request_id: str
    started_at: float
    response_reason: str = ""
    site: SiteInfo = EMPTY_SITE_INFO
    client_address: str = ""
    is_trusted: bool = False
    is_mcp: bool = False
    rpc_id: str | int | None = None
    is_mcp_preflight: bool = False
    needs_token: bool = False
    body: bytes | None = None

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def peer(self) -> str:
        """Return the address of the connection's peer; empty for a Unix socket."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def client_header_names(self) -> list[bytes]:
        """Return the names of all client headers.

        They include those that gate's listener dropped, because a front proxy that uses forward auth forwards them.
        """
        return [*(name for name, _ in self.scope["headers"]), *self.scope.get("gate.ignored_headers", ())]

    @property
    def is_head(self) -> bool:
        """Return whether the request on this connection is HEAD, regardless of the original request's method (forward auth)."""
        return bool(self.scope["method"] == "HEAD")

    @property
    def is_upgrade(self) -> bool:
        """Return whether the client offers an upgrade to another protocol (RFC 9110 7.8)."""
        if b"upgrade" not in self.headers:
            return False
        return any(b"upgrade" in value.lower() for name, value in self.scope["headers"] if name == b"connection")

    @property
    def is_connect(self) -> bool:
        """Return whether the request on this connection is CONNECT, regardless of the original request's method (forward auth)."""
        return bool(self.scope["method"] == CONNECT)

    @property
    def is_grpc(self) -> bool:
        return self.headers.get(b"content-type", b"").startswith(b"application/grpc")

    @property
    def accepts_event_stream(self) -> bool:
        """Return whether Accept contains text/event-stream.  The response need not be a stream."""
        return b"text/event-stream" in self.headers.get(b"accept", b"").lower()

    @property
    def is_navigation(self) -> bool:
        """Return whether a browser opens a page with it: a GET, a HEAD or a form's POST, by Fetch Metadata or else by Accept.

        Other clients can't use a redirect to a sign-in page.
        """
        headers, method = self.headers, self.request.method
        if method not in ("GET", "HEAD") and not (method == "POST" and self.media_type in FORM_TYPES):
            return False
        if self.is_upgrade:
            return False
        if (mode := headers.get(b"sec-fetch-mode")) is not None:
            # Outranks Authorization and X-Requested-With, because no script can set it.  Browsers send an application's Basic login
            # with navigations, and Android's WebView sends its name.
            return mode == b"navigate"
        if any(name in (b"authorization", b"x-requested-with") or name.startswith(b"sec-fetch-") for name in headers):
            return False
        return b"text/html" in headers.get(b"accept", b"").lower()

    @property
    def media_type(self) -> str:
        """Return the media type of the body, in lower case, without parameters."""
        return self.header(b"content-type").partition(";")[0].strip().lower()

    @property
    def is_script_request(self) -> bool:
        """Return whether a script (fetch, XHR) or a client that prefers JSON sent it; its errors are JSON."""
        mode = self.headers.get(b"sec-fetch-mode")
        if mode is not None:
            return mode != b"navigate"
        if b"x-requested-with" in self.headers:
            return True
        accept = self.headers.get(b"accept", b"").lower()
        return b"json" in accept and b"text/html" not in accept

    @property
    def accepts_redirect(self) -> bool:
        """Return whether a front proxy that has chosen redirects may redirect it to a sign-in page."""
        return not (self.is_upgrade or self.is_script_request or self.is_grpc or self.is_connect)


EMPTY_REQUEST = PolicyRequest(method="", host="", port=None, path="/")


def new_request_id() -> str:
    """Return a request id, 128 random bits as 32 hex digits, which links the error page, gate's log and the upstream's log.

    It never comes from a client, so that no client can forge the trail of another.
    """
    return os.urandom(16).hex()


def build_incoming_request(scope: dict[str, Any]) -> IncomingRequest:
    """Build a request that is not parsed yet."""
    headers = scope["headers"]
    cookies = [value for name, value in headers if name == b"cookie"]
    return IncomingRequest(scope, EMPTY_REQUEST, dict(headers), cookies, new_request_id(), time.monotonic())


class BodyTooLarge(BadRequest):
    """Error of a body that is too large for gate's pages, which accept only forms."""

    status = 413


def limit_body(receive: Receive, max_bytes: int) -> Receive:
    """Return an ASGI `receive` for a reader that buffers the complete body, as Django does.  It raises BodyTooLarge beyond `max_bytes`."""
    received = 0

    async def receive_some() -> dict[str, Any]:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise BodyTooLarge(Message("its body is too large"))
        return message

    return receive_some


def client_certificate(incoming: IncomingRequest) -> ClientCertificate | None:
    """Return the client certificate of this connection, if the connection was opened for this request's host.

    A connection for another server name may also send requests for this host, but its certificate does not count for them.
    """
    facts = incoming.scope.get("extensions", {}).get(TLS_EXTENSION)
    if facts is None or not facts["chain"]:
        return None
    server_name = facts["server_name"]
    if server_name is not None:
        host, _ = canonical_host(incoming.headers.get(b"host", b""))
        if server_name.lower().removesuffix(".") != host:
            return None
    return parse_certificate(facts["chain"])
