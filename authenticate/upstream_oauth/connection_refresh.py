"""Refresh of the tokens of connections, on behalf of waiting requests, in the elected process."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog

from authenticate.provider.tokens.token_response import InvalidGrant, Tokens
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authorize.upstream.account_connections import LIFETIME, AccountConnection, UpstreamServer, refuse_connection
from databroker.broker_client import BrokerClient, Edited, update
from databroker.records import UPSTREAM_CONNECTION, UPSTREAM_REFRESH_REQUEST, Record, TokenRefreshRequest
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError, ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

CONCURRENCY = 16  # refreshes at one server
LEASE_SECONDS = 60.0
WRITE_RETRY_TIMEOUT = 15.0  # seconds
INITIAL_BACKOFF = 0.1


class ConnectionGone(Exception):
    """The connection was replaced or, if `is_removed`, removed during its refresh."""

    def __init__(self, *, is_removed: bool):
        self.is_removed = is_removed
        super().__init__()


class ConnectionRefresh:
    """Handler of refresh requests.  The request is deleted when the attempt has finished, which wakes the waiting request."""

    def __init__(self, connections: UpstreamConnections, broker: BrokerClient, clock: Callable[[], float]):
        self._connections = connections
        self._broker = broker
        self._clock = clock
        self._semaphores: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(CONCURRENCY))
        self.running: dict[str, asyncio.Task[None]] = {}

    def handle(self, record: Record) -> None:
        if record.id not in self.running:
            task = self.running[record.id] = spawn(self._handle(record), name="refresh of a connection")
            task.add_done_callback(lambda _: self.running.pop(record.id, None))

    async def _handle(self, request: Record) -> None:
        wish = TokenRefreshRequest.parse(request)
        try:
            if wish is not None and (lease := await self._broker.acquire(f"connection refresh/{request.id}", LEASE_SECONDS)) is not None:
                try:
                    await self._renew(request.id, wish.tokens_received_at)
                finally:
                    await self._broker.release(lease)
        except ConnectionGone:
            pass
        except (ProviderError, BrokerError) as error:
            log.warning("upstream connection refresh failed", connection=request.id, reason=str(error))
        finally:
            with suppress(BrokerError):
                await self._broker.delete(UPSTREAM_REFRESH_REQUEST, request.id)

    # enforcement-point: Upstream requests: Refresh of tokens of third-party MCP servers
    async def _renew(self, id: str, received_at: float) -> None:
        """Refresh the tokens unless another attempt has done so.  Those that the server no longer accepts are deleted."""
        record = await self._broker.get(UPSTREAM_CONNECTION, id)
        connection = AccountConnection.parse(record) if record is not None else None
        if record is None or connection is None or connection.has_other_tokens(received_at):
            return
        server = self._connections.servers.find(connection.resource)
        if server is None or connection.server_fingerprint != server.fingerprint:
            return
        if not connection.refresh_token:
            await self._refuse(record, connection, "its token has ended, and there is no refresh token")
            return
        client = self._connections.client
        endpoints = await client.discovery.find(server)
        if endpoints.issuer != connection.authorization_server:
            # Because another server must not get the refresh token.
            await self._refuse(record, connection, "its server has another authorization server")
            return
        try:
            async with self._semaphores[connection.resource]:
                tokens = await client.refresh(server, endpoints, connection.refresh_token)
        except InvalidGrant as error:
            await self._refuse(record, connection, str(error))
            return
        await self._save(id, server, connection, tokens)

    async def _refuse(self, record: Record, connection: AccountConnection, reason: str) -> None:
        await refuse_connection(self._broker, record, connection, self._clock(), reason)

    async def _save(self, id: str, server: UpstreamServer, before: AccountConnection, tokens: Tokens) -> None:
        """Write the new tokens, also after a short failure of the store, because the server may no longer accept the old ones.

        If the user has disconnected during the refresh, they are revoked.
        """
        renewed = replace(
            before,
            tokens_received_at=self._clock(),
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or before.refresh_token,
            access_token_expires_at=tokens.expires_at,
        )

        def edit(current: Record | None) -> Edited:
            stored = AccountConnection.parse(current) if current is not None else None
            if current is None or stored is None or stored.has_other_tokens(before.tokens_received_at):
                raise ConnectionGone(is_removed=stored is None or stored.refused_at is not None)
            return {**current.data, **renewed.to_data()}, self._clock() + LIFETIME

        now, waits = asyncio.get_running_loop().time, backoff_delays(INITIAL_BACKOFF)
        ends = now() + WRITE_RETRY_TIMEOUT
        try:
            while True:
                try:
                    await update(self._broker, UPSTREAM_CONNECTION, id, edit)
                except BrokerError as error:
                    if now() + (wait := next(waits)) >= ends:
                        raise ProviderError("the new token could not be saved") from error
                    await asyncio.sleep(wait)
                else:
                    return
        except (ConnectionGone, ProviderError) as error:
            if not isinstance(error, ConnectionGone) or error.is_removed:
                await self._connections.client.revoke(server, renewed)
            raise
