"""HTTP client for upstreams, which opens an exchange for each request.

It uses aiohttp's connector (TLS, happy eyeballs) and response parser without ClientSession. That retries requests after a lost connection,
normalizes the target, and costs more than all other forwarding code together (measured with aiohttp 3.14).
"""

import asyncio
import socket
from functools import partial
from typing import cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from foundation.connection_errors import ConnectFailure, classify_failure
from proxy.rewriting.connection_auth import ConnectionUse
from proxy.upstreams.idle_connections import IdleConnections
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream, request_head
from proxy.upstreams.upstream_connection import UpstreamConnection
from proxy.upstreams.upstream_errors import UpstreamErrors
from proxy.upstreams.upstream_exchange import CONNECTION_ERRORS, UpstreamExchange

CONNECT_TIMEOUT = 10.0  # seconds

FAMILIES = {"AUTO": socket.AF_UNSPEC, "V4_ONLY": socket.AF_INET, "V6_ONLY": socket.AF_INET6}


class UpstreamClient:
    """HTTP client with the connections to all upstreams, pooled by address, TLS context and server name."""

    def __init__(self) -> None:
        self.family = socket.AF_UNSPEC
        self._connector: aiohttp.TCPConnector | None = None
        self._idle = IdleConnections()
        self._timeout = aiohttp.ClientTimeout(connect=CONNECT_TIMEOUT)
        self.upstream_errors = UpstreamErrors()

    def reconfigure(self, dns_lookup_family: str) -> None:
        """Apply changed settings to new connections."""
        self.family = FAMILIES[dns_lookup_family]
        if self._connector is not None:
            self._connector._family = self.family
            self._connector.clear_dns_cache()

    async def open(self, request: OutgoingRequest, *, force_new: bool = False) -> "UpstreamExchange":
        """Return an exchange whose request head has been sent.

        Its connection is new if `force_new`, and for upgrades, because they keep the connection and cannot retry on another. So is that of
        a request that may authenticate its connection. Raises UpstreamError.
        """
        force_new = force_new or request.is_upgrade or request.connection_use is ConnectionUse.EXCLUSIVE
        while True:
            head = request_head(request)
            try:
                connection = None if force_new else self._idle.acquire(request.upstream.connection_key)
                if connection is None:
                    connection = await self._connect(request.upstream)
                exchange = UpstreamExchange(connection, request, self.upstream_errors, self._idle)
            except CONNECTION_ERRORS as error:
                endpoint, failure = request.upstream.endpoint, classify_failure(error)
                if request.statistics is not None:
                    request.statistics.connect_failures += 1
                # Without a free file descriptor, no other upstream can be connected to either.
                selection = None if failure is ConnectFailure.FD_EXHAUSTED else request.selection
                if selection is None or not selection.move_to_next_member(request):
                    # Not stored in a variable, because its traceback refers to this frame: a reload would freeze that reference cycle
                    # (gateproject/process/gc_tuning.py) and with it a complete configuration.
                    raise self.upstream_errors.record_connect_error(endpoint, error) from error
                self.upstream_errors.record_connect_error(endpoint, error)
                if request.statistics is not None:
                    request.statistics.retries += 1
            else:
                exchange.send_head(head)
                return exchange

    async def _connect(self, upstream: Upstream) -> Connection:
        if self._connector is None:  # needs the running loop
            self._connector = aiohttp.TCPConnector(limit=0, family=self.family)
            factory = partial(UpstreamConnection, asyncio.get_running_loop())
            self._connector._factory = cast("partial[ResponseHandler]", factory)
        return await self._connector.connect(cast(aiohttp.ClientRequest, upstream), [], self._timeout)

    async def close(self) -> None:
        self._idle.close()
        if self._connector is not None:
            await self._connector.close()
            self._connector = None
