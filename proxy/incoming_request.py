"""Incoming request: its ASGI scope, its one canonical reading, and the headers that decide how we answer."""

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

# What the listener says of the TLS connection: the name that the client asked for (None: none), and the chain it showed, DER.
TLS_EXTENSION = "gate.tls"

# The `enctype` values of a form (HTML, 4.10.19.6).
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


@dataclass(slots=True)  # not frozen: one is made for each request, and frozen ones cost three times as much
class IncomingRequest:
    """Incoming request.  `headers` holds the last value of each lower-case name; `cookies` every Cookie header.

    `started` is a monotonic clock's.  `told` is the reason that a page of ours gave the client, for the log.
    `site` is for pages of ours.  `client_address` is for logs and sessions; the one that rules compare is in `request`.
    `is_trusted`: the peer is a trusted proxy, so its forwarding headers are believed.
    """

    scope: dict[str, Any]
    request: PolicyRequest
    headers: dict[bytes, bytes]
    cookies: list[bytes]
    request_id: str
    started_at: float
    response_reason: str = ""
    site: SiteInfo = EMPTY_SITE_INFO
    client_address: str = ""
    is_trusted: bool = False

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def peer(self) -> str:
        """Peer address of the connection; empty for a Unix socket."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def client_header_names(self) -> list[bytes]:
        """Names of all headers of the client, those among them that our listener left out: who asks us about a request forwards them."""
        return [*(name for name, _ in self.scope["headers"]), *self.scope.get("gate.ignored_headers", ())]

    @property
    def is_head(self) -> bool:
        """Whether the request on our connection is HEAD, whatever the one that is judged was (forward auth)."""
        return bool(self.scope["method"] == "HEAD")

    @property
    def is_upgrade(self) -> bool:
        """Upgrade to websocket or any other protocol (RFC 9110 7.8)."""
        if b"upgrade" not in self.headers:
            return False
        return any(b"upgrade" in value.lower() for name, value in self.scope["headers"] if name == b"connection")

    @property
    def is_connect(self) -> bool:
        """CONNECT for a tunnel, on our connection (not one that another proxy asks about)."""
        return bool(self.scope["method"] == CONNECT)

    @property
    def is_grpc(self) -> bool:
        return self.headers.get(b"content-type", b"").startswith(b"application/grpc")

    @property
    def accepts_event_stream(self) -> bool:
        """Accept of text/event-stream, which is no reason to believe that the answer will be a stream."""
        return b"text/event-stream" in self.headers.get(b"accept", b"").lower()

    @property
    def is_navigation(self) -> bool:
        """Whether a browser opens a page with it: a GET, a HEAD or a form's POST, by Fetch Metadata or, without that, by Accept.

        Every other client can do nothing with a redirect to a sign-in page (spec/decisions.md, *Not signed in*).
        """
        headers, method = self.headers, self.request.method
        if method not in ("GET", "HEAD") and not (method == "POST" and self.media_type in FORM_TYPES):
            return False
        if self.is_upgrade:
            return False
        if (mode := headers.get(b"sec-fetch-mode")) is not None:
            # Outranks Authorization and X-Requested-With, because browsers send an application's own Basic login and Android's WebView
            # its name with navigations, and no script can set it.
            return mode == b"navigate"
        if any(name in (b"authorization", b"x-requested-with") or name.startswith(b"sec-fetch-") for name in headers):
            return False
        return b"text/html" in headers.get(b"accept", b"").lower()

    @property
    def media_type(self) -> str:
        """Media type of the body, in lower case, without parameters."""
        return self.header(b"content-type").partition(";")[0].strip().lower()

    @property
    def is_programmatic(self) -> bool:
        """Whether a script sent this (fetch, XHR), or a client that prefers JSON: its errors are JSON."""
        mode = self.headers.get(b"sec-fetch-mode")
        if mode is not None:
            return mode != b"navigate"
        if b"x-requested-with" in self.headers:
            return True
        accept = self.headers.get(b"accept", b"").lower()
        return b"json" in accept and b"text/html" not in accept

    @property
    def accepts_redirect(self) -> bool:
        """Whether a front proxy, which has decided to redirect, may redirect this to a sign-in page."""
        return not (self.is_upgrade or self.is_programmatic or self.is_grpc or self.is_connect)


EMPTY_REQUEST = PolicyRequest(method="", host="", port=None, path="/")


def new_request_id() -> str:
    """Request id, 128 random bits as 32 hex digits, which ties a person's error page, the log lines and the upstream's log together.

    It is never taken from a client, so that nobody can forge another's trail.
    """
    return os.urandom(16).hex()


def build_incoming_request(scope: dict[str, Any]) -> IncomingRequest:
    """Request that has just arrived and is still to be read."""
    headers = scope["headers"]
    cookies = [value for name, value in headers if name == b"cookie"]
    return IncomingRequest(scope, EMPTY_REQUEST, dict(headers), cookies, new_request_id(), time.monotonic())


class BodyTooLarge(BadRequest):
    """Error of a body that is too large for pages of ours, which need no more than a form."""

    status = 413


def limit_body(receive: Receive, max_bytes: int) -> Receive:
    """ASGI `receive` for a reader that gathers the whole body, as Django does, on disk if need be: BodyTooLarge beyond `max_bytes`."""
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
    """Client certificate that was shown when this connection was opened, if it was opened for this request's host.

    A connection that was opened for another name may carry requests for this one; what it showed there does not count here.
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
