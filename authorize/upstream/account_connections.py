"""Third-party MCP servers, and the connections of users to them: one record for each user and server, with the user's tokens."""

import hashlib
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from urllib.parse import quote

import structlog

from authorize.protected_resources import ProtectedResource, resource_for
from config.routes.route import Route
from config.routes.route_upstream_oauth import UpstreamOAuthSettings, upstream_oauth_settings, upstream_resource_uri
from databroker.broker_client import BrokerClient, iter_records
from databroker.end_sessions import user_key
from databroker.records import UPSTREAM_CONNECTION, Record, RecordValue, SessionRecord

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
    settings, resource = upstream_oauth_settings(route), resource_for(route, route.from_.host_port)
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


@dataclass(frozen=True, slots=True)
class AccountConnection(RecordValue):
    """Connection of a user to a third-party server.  `issuer` is that of the user's session; times are Unix seconds."""

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

    # enforcement-point: Upstream requests: Owner of a token of a third-party MCP server
    def belongs_to(self, user_id: str, issuer: str, server: UpstreamServer) -> bool:
        """Return whether the tokens are those of this user, and of the server as it is configured now."""
        return (self.user_id, self.issuer, self.server_fingerprint) == (user_id, issuer, server.fingerprint)

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


def connection_of(record: Record | None, session: SessionRecord, server: UpstreamServer) -> AccountConnection | None:
    """Return the connection in a record if it is that of the session's user to this server."""
    connection = AccountConnection.parse(record) if record is not None else None
    is_own = connection is not None and connection.belongs_to(session.user_id, session.effective_issuer, server)
    return connection if is_own else None


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


async def delete_user_connections(broker: BrokerClient, user_id: str, reason: str, normalize_id: Callable[[str], str] = str) -> None:
    """Delete the connections of a user whose account has ended."""
    async for record, connection in user_connections(broker, user_id, normalize_id):
        await broker.delete(UPSTREAM_CONNECTION, record.id)
        log_removal(connection, reason)


def log_removal(connection: AccountConnection, reason: str) -> None:
    log.info("upstream connection removed", user_id=connection.user_id, resource=connection.resource, reason=reason)
