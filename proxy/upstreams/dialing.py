"""TCP dialing of one upstream of a route, for whoever carries bytes that nobody reads.

Never one of the pool: what an earlier exchange left on a connection would be the first thing that a tunnel's client hears.
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
    """TCP connection.  `selection` is where it was chosen among several: another is tried if it can't be reached.  UpstreamError."""
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
                statistics.connection_opened()
            return transport


async def _connect(upstream: Upstream, family: int, upstream_errors: UpstreamErrors, protocol: asyncio.Protocol) -> asyncio.Transport:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: protocol, upstream.host, upstream.port or 0, family=family, happy_eyeballs_delay=_HAPPY_EYEBALLS_DELAY
            )
    except OSError as error:  # also where it took too long
        raise upstream_errors.connect_error(upstream.endpoint, error) from error
    upstream_errors.record_success(upstream.endpoint)
    set_read_size(transport, MAX_READ_BYTES)
    return transport
