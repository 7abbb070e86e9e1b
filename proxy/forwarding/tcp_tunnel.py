"""TCP tunnel for an authorized CONNECT: dial the upstream, respond 200 (RFC 9110 9.3.6), and relay bytes in both directions.

Bytes that the client sends before the 200 stay in the listener. They reach the upstream only if the tunnel is established.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from foundation.errors import AccessRevoked
from foundation.telemetry import metrics
from foundation.web.asgi_types import Header, Receive
from proxy.forwarding.forward_result import ForwardResult, StreamHandle, TerminationReason
from proxy.forwarding.http_forwarding import DisconnectWatches, ExchangeSupervisor
from proxy.forwarding.tunnel import ByteTunnel, ConnectionTakeover, TunnelSide, run_tunnel


@dataclass(frozen=True, slots=True)
class TunnelLimits:
    """Limits of a tunnel in seconds, None for unlimited. `lifetime` starts with the 200."""

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
    """Run one tunnel until it is closed.

    `name` is the route's label in metrics. Without `client_half_closes`, the end of the client's data closes the tunnel. Raises
    UpstreamError or AccessRevoked, both only before anything has been sent.
    """
    tunnel, result = ByteTunnel(half_closes=True, client_half_closes=client_half_closes, idle_timeout=limits.idle_timeout), ForwardResult()
    supervisor = ExchangeSupervisor(receive, None, DisconnectWatches())
    handle.revoke = supervisor.revoke
    supervisor.watch_disconnect_later()
    try:
        await dial(tunnel.upstream)
        tunnel.client.connection, client_prefix = take_over(headers, tunnel.client)
        result.status = 200
    except asyncio.CancelledError:
        result.termination = supervisor.cancellation_reason()
        if result.termination is TerminationReason.ACCESS_ENDED:
            raise AccessRevoked from None
        return result
    except OSError:  # ASGI: the client has disconnected
        result.termination = TerminationReason.CLIENT_DISCONNECTED
        return result
    finally:
        supervisor.stop()
        if result.status is None and tunnel.upstream.is_connected:
            tunnel.upstream.connection.abort()
    with metrics.tunnels.labels(name).track_inprogress():
        await run_tunnel(tunnel, client_prefix, b"", limits.lifetime, handle, result)
    metrics.tunnel_bytes.labels(name, "up").inc(result.downstream_bytes_received or 0)
    metrics.tunnel_bytes.labels(name, "down").inc(result.downstream_bytes_sent)
    return result
