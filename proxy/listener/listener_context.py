"""Listener context: what all connections of one listener share, what a reload replaces of it, and what they report."""

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

# What has ended, for who counts: the Host header and the method as they came (empty: no request could be read), the status, how long it
# took, and how many bytes of body came and went.  A connection that was taken over has ended so far when it was.
OnRequestComplete = Callable[[bytes, bytes, int, float, int, int], None]


def ignore_completion(*ended: object) -> None:
    """Counter that counts nothing, for a listener whose requests are no part of what gate does for people."""


class Lifecycle(Protocol):
    """Process that a server serves; the server calls these methods."""

    def on_ready(self) -> None:
        """All ports are open, and the event loop runs."""

    async def drain(self) -> None:
        """Prepare for the stop.  Awaited at the first signal, while the ports are still open."""

    async def stop(self) -> None:
        """Stop.  Awaited after the last request."""

    def on_request_complete(self, host: bytes, method: bytes, status: int, seconds: float, received: int, sent: int) -> None:
        """Count a request: the facts of `Ended`."""


class TunnelProtocol(Protocol):
    """Protocol that takes a connection over: asyncio's without its first call, and with a last one."""

    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def eof_received(self) -> bool | None:
        """End of the client's side; true to speak on."""

    def connection_lost(self, error: Exception | None) -> None: ...
    def stopped(self) -> None:
        """Shutdown of the listener: close soon."""


@dataclass(frozen=True, slots=True)
class ListenerState:
    """Listener state.  `certificates` is None where something in front ends TLS."""

    limits: ListenerLimits
    certificates: Certificates | None

    @classmethod
    def build(
        cls,
        options: Options,
        previous: "ListenerState | None" = None,
        wants_certificate: WantsClientCertificate = lambda server_name: False,
        acme: AcmeState | None = None,
    ) -> Self:
        """State of a configuration; ConfigError where a pair can't be used.

        All contexts are made before any is used; those of unchanged pairs live on, so that clients may resume their TLS
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


# What a reload replaces.
GetState = Callable[[], ListenerState]
# Where no configuration says others.
default_state = partial(ListenerState, ListenerLimits(), None)


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """Listener configuration.  `get_state` is called at each connection, so that a reload changes certificates and limits.

    `proxy_protocol`: connections begin with the PROXY protocol.
    """

    get_state: GetState
    acme: AcmeState = field(default_factory=AcmeState)
    proxy_protocol: bool = False


@dataclass(slots=True)
class ListenerContext:
    """Listener context.  `current` is asked whenever a wait begins: it is under the limits of that moment.  `emptied` is set whenever
    the last connection ends."""

    application: Application
    get_state: GetState
    on_request_complete: OnRequestComplete = ignore_completion
    grace_seconds: float = APPLICATION_GRACE_SECONDS  # an application has so long to notice that its client went away
    channels: set["Channel"] = field(default_factory=set)
    exchanges: set["Exchange"] = field(default_factory=set)
    is_stopping: bool = False
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)

    def record_rejection(self, status: int) -> None:
        """Note a refusal before there was a request that could be read."""
        self.on_request_complete(b"", b"", status, 0.0, 0, 0)


def scope_address(address: Any) -> list[Any] | None:
    """[host, port] for the ASGI scope, None for a unix socket.  An IPv4 client of a dual-stack socket is an IPv4 client."""
    host = getattr(address, "host", None)
    if host is None:
        return None
    mapped = getattr(ip_address(host.partition("%")[0]), "ipv4_mapped", None)
    return [str(mapped or host), address.port]
