"""Connections of users to third-party MCP servers: authorization requests, new connections, and their end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

import structlog

from authenticate.provider.tokens.token_response import Tokens
from authenticate.upstream_oauth.server_discovery import ServerEndpoints
from authenticate.upstream_oauth.token_client import UpstreamTokenClient
from authorize.upstream.account_connections import (
    LIFETIME,
    AccountConnection,
    ConnectionState,
    UpstreamServer,
    UpstreamServers,
    connection_id,
    connection_state,
    user_connections,
)
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.records import UPSTREAM_CONNECTION, Record, SessionRecord
from foundation.crypto.sign_in_attempts import SignInAttempts
from foundation.errors import BrokerError
from foundation.tasks import spawn
from foundation.web.message import Message

log = structlog.get_logger(__name__)


STATE_TEXTS = {
    ConnectionState.CONNECTED: Message("Your account there is connected"),
    ConnectionState.NOT_CONNECTED: Message("Your account there is not connected"),
    ConnectionState.EXPIRED: Message("The connection of your account has expired: connect again"),
    ConnectionState.CHANGED: Message("Connect again: its settings have changed"),
    ConnectionState.REMOVED: Message("You may no longer use this server"),
    ConnectionState.UNKNOWN: Message("Your account there can't be checked at the moment"),
}


@dataclass(frozen=True, slots=True)
class ListedServer:
    """Server for display.  `connected_at` is None without a connection; `is_current` is whether it is configured and accessible."""

    resource: str
    name: str
    connected_at: float | None
    state: ConnectionState
    is_current: bool

    @property
    def text(self) -> Message:
        return STATE_TEXTS[self.state]


class UpstreamConnections:
    """Connections under one configuration.  Methods raise BrokerError."""

    def __init__(self, options: Options, broker: BrokerClient, clock: Callable[[], float]):
        self.servers = UpstreamServers(options.policy)
        self.attempts = SignInAttempts(options, purpose="upstream")
        self.client = UpstreamTokenClient(options, clock)
        self._broker = broker
        self._clock = clock
        self._revocations: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in list(self._revocations):
            task.cancel()
        if self._revocations:
            await asyncio.wait(self._revocations)
        await self.client.close()

    def authorization_url(self, server: UpstreamServer, endpoints: ServerEndpoints, state: str, code_challenge: str) -> str:
        """Return the URL of the server's authorization server, to which the browser goes."""
        settings = server.settings
        params = {
            "response_type": "code",
            "client_id": self.client.client_id(server),
            "redirect_uri": self.client.redirect_uri(server),
            "state": state,
            "code_challenge": code_challenge,
            "code_challenge_method": "S256",
            "resource": endpoints.resource,
        }
        params |= {"scope": " ".join(settings.scopes)} if settings.scopes else {}
        endpoint = endpoints.authorization_endpoint
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(params)}"

    async def get(self, session: SessionRecord, server: UpstreamServer) -> AccountConnection | None:
        """Return the connection of the session's user, None if there is none that can be used."""
        record = await self._broker.get(UPSTREAM_CONNECTION, connection_id(session.user_id, server.resource.uri))
        connection = AccountConnection.parse(record) if record is not None else None
        return connection if self._state(session, connection, server) is ConnectionState.CONNECTED else None

    async def is_missing(self, session: SessionRecord) -> bool:
        """Return whether the agent of a session needs an account at a third-party server that its user has not connected."""
        agent = session.agent
        server = self.servers.find(agent.resource) if agent is not None else None
        if agent is None or server is None or not server.resource.accepts(agent.client_id):
            return False
        return await self.get(session, server) is None

    async def save(self, session: SessionRecord, server: UpstreamServer, endpoints: ServerEndpoints, tokens: Tokens) -> None:
        """Write the connection of the session's user.  If that fails, the tokens are revoked, so that nothing remains of them."""
        now = self._clock()
        connection = AccountConnection(
            user_id=session.user_id,
            issuer=session.effective_issuer,
            resource=server.resource.uri,
            server_fingerprint=server.fingerprint,
            connected_at=now,
            tokens_received_at=now,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
            access_token_expires_at=tokens.expires_at,
            authorization_server=endpoints.issuer,
        )
        id = connection_id(session.user_id, server.resource.uri)
        try:
            await self._broker.put(UPSTREAM_CONNECTION, id, connection.to_data(), expires=now + LIFETIME)
        except BrokerError:
            self.revoke(connection)
            raise
        log.info("upstream connected", user_id=session.user_id, resource=connection.resource, session_id=session.id)

    async def disconnect(self, session: SessionRecord, resource: str) -> bool:
        """Delete the connection of the session's user, and revoke its tokens in the background.  Return whether there was one."""
        record = await self._broker.get(UPSTREAM_CONNECTION, connection_id(session.user_id, resource))
        connection = AccountConnection.parse(record) if record is not None else None
        if record is None or connection is None or connection.user_id != session.user_id:
            return False
        await self.delete(record)
        return True

    async def delete(self, record: Record) -> None:
        """Delete a connection, and revoke its tokens in the background."""
        await self._broker.delete(UPSTREAM_CONNECTION, record.id)
        if (connection := AccountConnection.parse(record)) is not None:
            log.info("upstream disconnected", user_id=connection.user_id, resource=connection.resource)
            self.revoke(connection)

    async def list_servers(self, session: SessionRecord, accessible: list[str]) -> list[ListedServer]:
        """Return the servers that the user may use, and those to which the user is still connected, by name."""
        held = await self._user_connections(session)
        listed = []
        for resource in dict.fromkeys((*accessible, *held)):
            server, connection = self.servers.find(resource), held.get(resource)
            listed.append(
                ListedServer(
                    resource=resource,
                    name=server.name if server is not None else resource.partition("://")[2],
                    connected_at=connection.connected_at if connection is not None else None,
                    state=self._state(session, connection, server),
                    is_current=server is not None and resource in accessible,
                )
            )
        return sorted(listed, key=lambda each: (each.name.casefold(), each.resource))

    async def states(self, session: SessionRecord) -> dict[str, ConnectionState]:
        """Return the state of the user's connection to each server.  It is unknown if the data broker is unavailable."""
        servers = {server.resource.uri: server for server in self.servers}
        try:
            held = await self._user_connections(session) if servers else {}
        except BrokerError:
            return dict.fromkeys(servers, ConnectionState.UNKNOWN)
        return {uri: self._state(session, held.get(uri), server) for uri, server in servers.items()}

    async def _user_connections(self, session: SessionRecord) -> dict[str, AccountConnection]:
        return {connection.resource: connection async for _, connection in user_connections(self._broker, session.user_id)}

    def _state(self, session: SessionRecord, connection: AccountConnection | None, server: UpstreamServer | None) -> ConnectionState:
        if connection is None:
            return ConnectionState.NOT_CONNECTED
        state = connection_state(connection.server_fingerprint, connection.usable_until, server, self._clock())
        is_own = server is not None and connection.belongs_to(session.user_id, session.effective_issuer, server)
        return ConnectionState.CHANGED if state is ConnectionState.CONNECTED and not is_own else state

    def revoke(self, connection: AccountConnection) -> None:
        """Revoke the tokens of a deleted connection in the background, if the configuration of its server is that of the tokens."""
        server = self.servers.find(connection.resource)
        if server is None or not connection.belongs_to(connection.user_id, connection.issuer, server):
            return
        task = spawn(self.client.revoke(server, connection), name="revoke tokens of a third-party server")
        self._revocations.add(task)
        task.add_done_callback(self._revocations.discard)
