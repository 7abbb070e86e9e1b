"""Third-party MCP servers, and the connections of users to them: one record for each user and server, with the user's tokens."""

import hashlib
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import structlog

from authorize.protected_resources import ProtectedResource, mcp_server_for
from config.routes.route import Route
from config.routes.route_upstream_oauth import UpstreamOAuthSettings, upstream_oauth_settings, upstream_resource_uri
from databroker.broker_client import BrokerClient, iter_records
from databroker.end_sessions import user_key
from databroker.records import UPSTREAM_CONNECTION, Record, RecordValue, SessionRecord
from databroker.store.base import VersionConflict

# Seconds after the last new token.  An unused connection ends.
LIFETIME = 180 * 24 * 3600.0
REFRESH_MARGIN_SECONDS = 30.0  # or a quarter of the lifetime if that is shorter, because the upstream needs time to use the token

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UpstreamServer:
    """Third-party MCP server behind a route.

    `resource` is the route's, as clients of gate name it; `uri` is the server's own.  `fingerprint` changes with everything that decides
    where a token comes from and goes to.
    """

    resource: ProtectedResource
    settings: UpstreamOAuthSettings
    uri: str
    fingerprint: str

    @property
    def name(self) -> str:
        return self.resource.name

    @property
    def callback_name(self) -> str:
        """The end of the redirect URI's path.  It differs for each server, so that no server answers for another (RFC 9700 4.4.2.2)."""
        return quote(self.resource.uri.partition("://")[2], safe="/:%")


def upstream_server(route: Route) -> UpstreamServer | None:
    """Return the third-party server of a route, None without `upstream_oauth`."""
    settings, resource = upstream_oauth_settings(route), mcp_server_for(route, route.from_.host_port)
    if settings is None or resource is None:
        return None
    uri = upstream_resource_uri(route)
    endpoints = (settings.authorization_url, settings.token_url, settings.issuer)
    values = [uri, settings.client_id, sorted(settings.scopes), list(map(str, endpoints)), [str(each.url) for each in route.to]]
    return UpstreamServer(resource, settings, uri, hashlib.sha256(json.dumps(values).encode()).hexdigest())


class UpstreamServers:
    """Third-party servers of one configuration.  If two routes have one URI, the first counts."""

    def __init__(self, routes: Iterable[Route]):
        self._by_uri: dict[str, UpstreamServer] = {}
        for route in routes:
            if (server := upstream_server(route)) is not None:
                self._by_uri.setdefault(server.resource.uri, server)

    def __iter__(self) -> Iterator[UpstreamServer]:
        return iter(self._by_uri.values())

    def find(self, uri: str) -> UpstreamServer | None:
        return self._by_uri.get(uri)


class ConnectionState(StrEnum):
    """Whether a connection can be used, else why it cannot."""

    CONNECTED = "connected"
    NOT_CONNECTED = "not_connected"
    EXPIRED = "expired"  # the server no longer accepts or renews its tokens
    CHANGED = "settings_changed"  # since the user connected
    REMOVED = "server_removed"  # from the configuration
    UNKNOWN = "unknown"  # the data broker is unavailable


@dataclass(frozen=True, slots=True)
class AccountConnection(RecordValue):
    """Connection of a user to a third-party server.  `issuer` is that of the user's session; times are Unix seconds.

    `refused_at`: the server no longer accepts its tokens, which are deleted.  The record remains, so that the user sees it.
    """

    user_id: str
    issuer: str
    resource: str
    server_fingerprint: str
    connected_at: float
    tokens_received_at: float
    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    access_token_expires_at: float | None = None
    authorization_server: str = ""  # issuer of the tokens, as far as it is known
    refused_at: float | None = None

    def to_data(self) -> dict[str, Any]:
        return {**asdict(self), "usable_until": self.usable_until}  # for the admin's table

    # enforcement-point: Upstream requests: Owner of a token of a third-party MCP server
    def belongs_to(self, user_id: str, issuer: str, server: UpstreamServer) -> bool:
        """Return whether it has tokens, and they are those of this user, and of the server as it is configured now."""
        owner = self.user_id, self.issuer, self.server_fingerprint
        return owner == (user_id, issuer, server.fingerprint) and self.refused_at is None

    def has_other_tokens(self, received_at: float) -> bool:
        """Return whether the tokens that were received then have been replaced, or refused."""
        return self.tokens_received_at != received_at or self.refused_at is not None

    @property
    def usable_until(self) -> float | None:
        """When it expires; None if the server renews its tokens, or their expiry is unknown."""
        if self.refused_at is not None:
            return self.refused_at
        return None if self.refresh_token else self.access_token_expires_at

    @property
    def due_at(self) -> float:
        """When the token must be replaced before its next use, infinite if its expiry is unknown."""
        if self.access_token_expires_at is None:
            return math.inf
        lifetime = max(self.access_token_expires_at - self.tokens_received_at, 0.0)
        return self.access_token_expires_at - min(REFRESH_MARGIN_SECONDS, lifetime / 4)


def connection_id(user_id: str, resource: str) -> str:
    """Return the id of the record.  It starts with the key of the user's account, so that all records of a user are adjacent."""
    return f"{user_key(user_id)}/{hashlib.sha256(json.dumps([user_id, resource]).encode()).hexdigest()}"


def parse_own_connection(record: Record | None, session: SessionRecord, server: UpstreamServer) -> AccountConnection | None:
    """Return the connection in a record if it is that of the session's user to this server."""
    connection = AccountConnection.parse(record) if record is not None else None
    is_own = connection is not None and connection.belongs_to(session.user_id, session.effective_issuer, server)
    return connection if is_own else None


def connection_state(fingerprint: str, usable_until: float | None, server: UpstreamServer | None, now: float) -> ConnectionState:
    """Return the state of a connection with this fingerprint of its server; `server` is as it is configured now."""
    if server is None:
        return ConnectionState.REMOVED
    if server.fingerprint != fingerprint:
        return ConnectionState.CHANGED
    return ConnectionState.CONNECTED if usable_until is None or now < usable_until else ConnectionState.EXPIRED


async def user_connections(
    broker: BrokerClient, user_id: str, normalize_id: Callable[[str], str] = str
) -> AsyncGenerator[tuple[Record, AccountConnection]]:
    """Yield the connections of a user.  `normalize_id` maps all user ids of one account to one value."""
    prefix = f"{user_key(user_id)}/"
    async with aclosing(iter_records(broker, UPSTREAM_CONNECTION, prefix)) as records:
        async for record in records:
            if not record.id.startswith(prefix):
                return
            connection = AccountConnection.parse(record)
            if connection is not None and normalize_id(connection.user_id) == normalize_id(user_id):
                yield record, connection


async def delete_user_connections(
    broker: BrokerClient, user_id: str, reason: str, normalize_id: Callable[[str], str], revoke: Callable[[AccountConnection], None]
) -> None:
    """Delete the connections of a user whose account has ended, and revoke their tokens."""
    async for record, connection in user_connections(broker, user_id, normalize_id):
        await broker.delete(UPSTREAM_CONNECTION, record.id)
        log_removal(connection, reason)
        revoke(connection)


async def refuse_connection(broker: BrokerClient, record: Record, connection: AccountConnection, now: float, reason: str) -> None:
    """Delete the tokens of a connection, because its server no longer accepts them.  One that was replaced stays as it is."""
    refused = replace(connection, access_token="", refresh_token="", access_token_expires_at=None, refused_at=now)
    with suppress(VersionConflict):
        await broker.put(UPSTREAM_CONNECTION, record.id, refused.to_data(), expires=record.expires, only_if_version=record.version)
        log_removal(connection, reason)


def log_removal(connection: AccountConnection, reason: str) -> None:
    log.info("upstream connection removed", user_id=connection.user_id, resource=connection.resource, reason=reason)
