"""Connections to upstreams for TCP tunnels.

They are never taken from the pool, because bytes left over from an earlier exchange would reach the tunnel's client first.
"""

import asyncio

from foundation.errors import FileDescriptorsExhausted, UpstreamError
from proxy.upstreams.cluster import ClusterSelection
from proxy.upstreams.outgoing_request import Upstream
from proxy.upstreams.route_statistics import RouteStatistics
from proxy.upstreams.upstream_client import CONNECT_TIMEOUT
from proxy.upstreams.upstream_connection import MAX_READ_BYTES, set_read_size
from proxy.upstreams.upstream_errors import UpstreamErrors

_HAPPY_EYEBALLS_DELAY = 0.25  # seconds (RFC 8305)


# enforcement-point: Upstream requests: TCP tunnel destination
async def dial(
    upstream: Upstream,
    selection: ClusterSelection | None,
    family: int,
    upstream_errors: UpstreamErrors,
    protocol: asyncio.Protocol,
    statistics: RouteStatistics | None = None,
) -> asyncio.Transport:
    """Open a TCP connection to an upstream, or to another one of `selection` if that fails.

    Raises UpstreamError if no connection can be opened.
    """
    while True:
        try:
            transport = await _connect(upstream, family, upstream_errors, protocol)
        except UpstreamError as error:
            if statistics is not None:
                statistics.connect_failures += 1
            if isinstance(error, FileDescriptorsExhausted) or selection is None or not selection.select_next():
                raise
            if statistics is not None:
                statistics.retries += 1
            upstream = selection.upstream
        else:
            if statistics is not None:
                statistics.record_connection_opened()
            return transport


async def _connect(upstream: Upstream, family: int, upstream_errors: UpstreamErrors, protocol: asyncio.Protocol) -> asyncio.Transport:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: protocol, upstream.host, upstream.port or 0, family=family, happy_eyeballs_delay=_HAPPY_EYEBALLS_DELAY
            )
    except OSError as error:  # includes timeouts
        raise upstream_errors.record_connect_error(upstream.endpoint, error) from error
    upstream_errors.record_success(upstream.endpoint)
    set_read_size(transport, MAX_READ_BYTES)
    return transport
