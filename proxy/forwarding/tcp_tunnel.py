"""TCP tunnel: CONNECT was let in, so dial its upstream, answer 200 (RFC 9110 9.3.6), and let bytes pass both ways.

What the client sends before it has our 200 waits in the listener: it goes to the upstream with the tunnel, or nowhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from foundation.errors import AccessRevoked
from foundation.telemetry import metrics
from foundation.web.asgi_types import Header, Receive
from proxy.forwarding.http_forwarding import DeferredWatches, DisconnectWatch, ForwardResult, StreamHandle, TerminationReason
from proxy.forwarding.tunnel import ByteTunnel, ConnectionTakeover, TunnelSide, run_tunnel


@dataclass(frozen=True, slots=True)
class TunnelLimits:
    """Limits in seconds, None for none: how long a tunnel may live from the 200 on, and how long neither of its ends may say anything."""

    lifetime: float | None
    idle_timeout: float | None


Dial = Callable[[TunnelSide], Awaitable[object]]


async def tunnel_tcp(
    name: str,
    dial: Dial,
    take_over: ConnectionTakeover,
    headers: Sequence[Header],
    receive: Receive,
    limits: TunnelLimits,
    handle: StreamHandle,
    *,
    client_half_closes: bool = True,
) -> ForwardResult:
    """Carry one tunnel until its end.  `name` is the route's, in metrics.  Without `client_half_closes` a client that ends is gone.

    Raises UpstreamError or AccessRevoked only while nothing has been sent.
    """
    tunnel, result = ByteTunnel(half_closes=True, client_half_closes=client_half_closes, idle_timeout=limits.idle_timeout), ForwardResult()
    watch = DisconnectWatch(receive, None, DeferredWatches())
    handle.cancel = watch.revoke
    watch.start_deferred()
    try:
        await dial(tunnel.upstream)
        tunnel.client.connection, client_prefix = take_over(headers, tunnel.client)
        result.status = 200
    except asyncio.CancelledError:
        result.termination = watch.cancellation_reason()
        if result.termination is TerminationReason.ACCESS_ENDED:
            raise AccessRevoked from None
        return result
    except OSError:  # ASGI: the client has gone
        result.termination = TerminationReason.CLIENT_DISCONNECTED
        return result
    finally:
        watch.stop()
        if result.status is None and tunnel.upstream.is_connected:
            tunnel.upstream.connection.abort()
    with metrics.tunnels.labels(name).track_inprogress():
        await run_tunnel(tunnel, client_prefix, b"", limits.lifetime, handle, result)
    metrics.tunnel_bytes.labels(name, "up").inc(result.bytes_received or 0)
    metrics.tunnel_bytes.labels(name, "down").inc(result.bytes_sent)
    return result
