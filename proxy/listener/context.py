"""Listener context: what all connections of one listener share, and what they say about their ends."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol

from foundation.web.asgi import Application
from proxy.listener.limits import APPLICATION_GRACE_SECONDS

if TYPE_CHECKING:
    from proxy.listener.http1.channel import Channel
    from proxy.listener.http1.request import Exchange
    from proxy.listener.state import ListenerState

# What has ended, for who counts: the Host header and the method as they came (empty: no request could be read), the status, how long it
# took, and how many bytes of body came and went.  A connection that was taken over has ended so far when it was.
Ended = Callable[[bytes, bytes, int, float, int, int], None]


def uncounted(*ended: object) -> None:
    """Counter that counts nothing, for a listener whose requests are no part of what gate does for people."""


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


# What a reload replaces.
Current = Callable[[], "ListenerState"]


@dataclass(slots=True)
class ListenerContext:
    """Listener context.  `current` is asked whenever a wait begins: it is under the limits of that moment.  `emptied` is set whenever
    the last connection ends."""

    application: Application
    current: Current
    ended: Ended = uncounted
    grace: float = APPLICATION_GRACE_SECONDS  # an application has so long to notice that its client went away
    channels: set["Channel"] = field(default_factory=set)
    exchanges: set["Exchange"] = field(default_factory=set)
    is_stopping: bool = False
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    def refused(self, status: int) -> None:
        """Note a refusal before there was a request that could be read."""
        self.ended(b"", b"", status, 0.0, 0, 0)


def scope_address(address: Any) -> list[Any] | None:
    """[host, port] for the ASGI scope, None for a unix socket.  An IPv4 client of a dual-stack socket is an IPv4 client."""
    host = getattr(address, "host", None)
    if host is None:
        return None
    mapped = getattr(ip_address(host.partition("%")[0]), "ipv4_mapped", None)
    return [str(mapped or host), address.port]
