"""Shared state of a listener's connections, the part of it that a reload replaces, and the callbacks for completed requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol, Self

from config.options import Options
from foundation.web.asgi_types import Application
from proxy.listener.listener_limits import APPLICATION_GRACE_SECONDS, ListenerLimits
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.server_certificates import Certificates, WantsClientCertificate

if TYPE_CHECKING:
    from proxy.listener.http1.exchange import Exchange
    from proxy.listener.http1.http1_channel import Channel

# Called when a request is complete: Host header and method as received (empty if no request could be parsed), status, duration in
# seconds, request body bytes, response body bytes. For a tunnel it is called when the tunnel starts.
OnRequestComplete = Callable[[bytes, bytes, int, float, int, int], None]


def ignore_completion(*completion: object) -> None:
    """Do nothing: the callback of listeners whose requests are not counted."""


class Lifecycle(Protocol):
    """Callbacks of the process that a server serves."""

    def on_ready(self) -> None:
        """Called once when all ports are open and the event loop runs."""

    async def drain(self) -> None:
        """Prepare to stop. Awaited at the first signal, while the ports are still open."""

    async def stop(self) -> None:
        """Stop. Awaited after the last request."""

    def on_request_complete(self, host: bytes, method: bytes, status: int, seconds: float, received: int, sent: int) -> None:
        """Count a request; the arguments are those of `OnRequestComplete`."""


class TunnelProtocol(Protocol):
    """Protocol that takes a connection over: asyncio's, without `connection_made` and with `on_shutdown`."""

    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def eof_received(self) -> bool | None:
        """Called at the client's end of input. Return true to keep the other direction open."""

    def connection_lost(self, error: Exception | None) -> None: ...
    def on_shutdown(self) -> None:
        """Called when the listener shuts down: close soon."""


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Limits and certificates of a listener under one configuration. `certificates` is None if a proxy in front terminates TLS."""

    limits: ListenerLimits
    certificates: Certificates | None

    @classmethod
    def build(
        cls,
        options: Options,
        previous: "ListenerSettings | None" = None,
        wants_certificate: WantsClientCertificate = lambda server_name: False,
        acme: AcmeState | None = None,
    ) -> Self:
        """Build the settings of a configuration. Raises ConfigError if a certificate and key cannot be used.

        All contexts are built before any is used. Contexts of unchanged pairs are reused, so that clients can resume their TLS
        sessions.
        """
        pairs = () if options.insecure_server else options.certificate_pairs
        before = None if previous is None else previous.certificates
        if before is not None and (before.pairs, before.min_version) == (pairs, options.tls_min_version):
            certificates: Certificates | None = before
        else:
            has_tls = not options.insecure_server and (pairs or options.autocert)
            certificates = Certificates(pairs, wants_certificate, acme, options.tls_min_version) if has_tls else None
        return cls(ListenerLimits.from_options(options), certificates)


# Returns the settings in force, which a reload replaces.
GetListenerSettings = Callable[[], ListenerSettings]
# Settings of listeners without configured limits.
default_settings = partial(ListenerSettings, ListenerLimits(), None)


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """Listener configuration. `get_settings` is called for each connection, so that a reload changes certificates and limits.

    If `proxy_protocol` is true, connections start with a PROXY protocol header.
    """

    get_settings: GetListenerSettings
    acme: AcmeState = field(default_factory=AcmeState)
    proxy_protocol: bool = False


@dataclass(slots=True)
class ListenerContext:
    """Context that the connections of a listener share.

    `get_settings` is called whenever a timer starts, so the timer has the limit in force. `all_closed` is set when
    the last connection closes.
    """

    application: Application
    get_settings: GetListenerSettings
    on_request_complete: OnRequestComplete = ignore_completion
    grace_seconds: float = APPLICATION_GRACE_SECONDS  # after a client disconnects, the application is cancelled after this time
    channels: set["Channel"] = field(default_factory=set)
    exchanges: set["Exchange"] = field(default_factory=set)
    is_stopping: bool = False
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)

    def count_rejection(self, status: int) -> None:
        """Count a rejection for which no request could be parsed."""
        self.on_request_complete(b"", b"", status, 0.0, 0, 0)


def scope_address(address: Any) -> list[Any] | None:
    """Return [host, port] for the ASGI scope, or None for a Unix socket. An IPv4-mapped IPv6 address is returned as IPv4."""
    host = getattr(address, "host", None)
    if host is None:
        return None
    mapped = getattr(ip_address(host.partition("%")[0]), "ipv4_mapped", None)
    return [str(mapped or host), address.port]
