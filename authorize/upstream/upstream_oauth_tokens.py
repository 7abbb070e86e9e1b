"""Authorization header with the user's own access token of a third-party MCP server.

The elected process of the authenticate service refreshes tokens (`authenticate/upstream_oauth/connection_refresh.py`).  A record in the
data broker requests it.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import BEARER, Identity
from authorize.upstream.account_connections import (
    AccountConnection,
    UpstreamServer,
    connection_id,
    parse_own_connection,
    refuse_connection,
    upstream_server,
)
from authorize.upstream.identity_header_templates import Headers
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.records import SESSION, UPSTREAM_CONNECTION, UPSTREAM_REFRESH_REQUEST, Record, TokenRefreshRequest
from databroker.replica import Replica, Unknown
from databroker.session_reader import SessionReader
from foundation.backoff import backoff_delays
from foundation.bounded_cache import MIB, BoundedCache, total_length
from foundation.errors import AccountConnectionRequired, GateError, NoIdentity, UpstreamCredentialsUnavailable
from foundation.single_flight import SingleFlight
from foundation.web.message import Message

log = structlog.get_logger(__name__)

MAX_CACHED = 10_000
MAX_CACHE_BYTES = 64 * MIB
MAX_WAIT_SECONDS = 12.0  # longer than one request to the token endpoint
FIRST_PAUSE, MAX_PAUSE_SECONDS = 0.02, 0.25
FAILURE_SECONDS = 2.0  # no retry in this time after a failure
# A token that the server rejects so soon after it issued it is not replaced again: the user must connect.
MIN_TOKEN_AGE_SECONDS = 60.0

NO_NEW_TOKEN = "the third-party server issued no new token"  # noqa: S105 - a message
NOT_CONNECTED = "the user has no account connected at the server"
NEEDS_USER = Message("it is used with the account of a signed-in user; service accounts and tokens of other issuers have none there")


class TokenHeader(NamedTuple):
    """Header for an identity, built from one version of the connection's record.  It is valid until `due_at`."""

    identity: Identity
    version: tuple[int, int]  # generation of the replica, and version of the record
    headers: Headers
    due_at: float


def token_hash(authorization: bytes) -> str:
    """Return the hash of an Authorization header, by which a data plane names a token that the upstream rejected."""
    return hashlib.sha256(authorization).hexdigest()


# enforcement-point: Upstream requests: Tokens of third-party MCP servers
class UpstreamOAuthTokens:
    """Cache of headers by session and route.  Concurrent requests that need a refresh share one."""

    def __init__(
        self,
        options: Options,
        routes: Iterable[CompiledRoute],
        broker: BrokerClient | None,
        replica: Replica | None,
        clock: Callable[[], float] = time.time,
    ):
        self._broker, self._replica, self._clock = broker, replica, clock
        self._sessions = SessionReader(options)
        self._servers: dict[str, UpstreamServer] = {}
        for compiled in routes:
            if (server := upstream_server(compiled.route)) is not None:
                self._servers.setdefault(compiled.id, server)
        self._cached: BoundedCache[tuple[str, str], TokenHeader] = BoundedCache(MAX_CACHED, MAX_CACHE_BYTES)
        self._refreshes: SingleFlight[str, None] = SingleFlight("refresh of an upstream token")
        self._failed: BoundedCache[str, float] = BoundedCache(MAX_CACHED, MIB)

    def __repr__(self) -> str:
        return f"<UpstreamOAuthTokens of {len(self._servers)} routes>"

    def has_route(self, route: CompiledRoute) -> bool:
        return route.id in self._servers

    async def headers_for(self, route: CompiledRoute, identity: Identity | None, rejected: str = "") -> Headers:
        """Return the header with the user's token.  `rejected` is the hash of a token that the upstream has rejected.

        Raises AccountConnectionRequired if the user must connect, NoIdentity if the caller is no user, and UpstreamCredentialsUnavailable.
        """
        if identity is None or not identity.is_provider_user or identity.session_id.startswith(BEARER):
            raise NoIdentity(NEEDS_USER)
        if self._broker is None or self._replica is None:
            raise UpstreamCredentialsUnavailable("this process has no data broker")
        server = self._servers[route.id]
        id, key = connection_id(identity.user_id, server.resource.uri), (identity.session_id, route.id)
        version, known = await self._version(self._replica, id), self._cached.get(key)
        is_current = known is not None and known.identity is identity and known.version == version and self._clock() < known.due_at
        if known is None or not is_current or rejected:
            record, connection = await self._usable(self._broker, identity, server, id, rejected)
            known = TokenHeader(identity, (self._replica.generation, record.version), _headers(connection), connection.due_at)
            self._cached.put(key, known, total_length(*key, known.headers))
        return known.headers

    async def _version(self, replica: Replica, id: str) -> tuple[int, int | None]:
        version = replica.version(UPSTREAM_CONNECTION, id)
        if isinstance(version, Unknown):
            record = await replica.get(UPSTREAM_CONNECTION, id)
            version = record.version if record is not None else None
        return replica.generation, version

    async def _usable(
        self, broker: BrokerClient, identity: Identity, server: UpstreamServer, id: str, rejected: str
    ) -> tuple[Record, AccountConnection]:
        """Return the connection as it is in the data broker, after a refresh if that is necessary."""
        record, connection = await self._read(broker, identity, server, id)
        is_rejected = bool(rejected) and hmac.compare_digest(rejected, token_hash(_headers(connection)[0][1]))
        if is_rejected and self._clock() - connection.tokens_received_at < MIN_TOKEN_AGE_SECONDS:
            await refuse_connection(broker, record, connection, self._clock(), "the server rejected its token")
            raise AccountConnectionRequired(NOT_CONNECTED)
        if not is_rejected and self._clock() < connection.due_at:
            return record, connection
        await self._refresh(broker, id, connection)
        record, renewed = await self._read(broker, identity, server, id)
        if renewed.tokens_received_at == connection.tokens_received_at or self._clock() >= renewed.due_at:
            raise UpstreamCredentialsUnavailable(NO_NEW_TOKEN)
        return record, renewed

    async def _read(self, broker: BrokerClient, identity: Identity, server: UpstreamServer, id: str) -> tuple[Record, AccountConnection]:
        found, record = await broker.get(SESSION, identity.session_id), await broker.get(UPSTREAM_CONNECTION, id)
        session = self._sessions.read_valid(found) if found is not None else None
        if session is None or session.user_id != identity.user_id:
            raise NoIdentity(NEEDS_USER)
        connection = parse_own_connection(record, session, server)
        if record is None or connection is None:
            raise AccountConnectionRequired(NOT_CONNECTED)
        return record, connection

    async def _refresh(self, broker: BrokerClient, id: str, connection: AccountConnection) -> None:
        if self._clock() < (self._failed.get(id) or 0.0) + FAILURE_SECONDS:
            raise UpstreamCredentialsUnavailable(NO_NEW_TOKEN)
        await self._refreshes.run(id, lambda: self._request_refresh(broker, id, connection))

    async def _request_refresh(self, broker: BrokerClient, id: str, connection: AccountConnection) -> None:
        """Request a refresh, and wait until the attempt has finished."""
        wish = TokenRefreshRequest(connection.tokens_received_at).to_data()
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await broker.put(UPSTREAM_REFRESH_REQUEST, id, wish, expires=self._clock() + MAX_WAIT_SECONDS)
                for wait in backoff_delays(FIRST_PAUSE, MAX_PAUSE_SECONDS):
                    await asyncio.sleep(wait)
                    if await broker.get(UPSTREAM_REFRESH_REQUEST, id) is None:
                        break
            record = await broker.get(UPSTREAM_CONNECTION, id)
            current = AccountConnection.parse(record) if record is not None else None
            if current is None or current.has_other_tokens(connection.tokens_received_at):
                return
            reason = "no new token"
        except TimeoutError:
            reason = "timeout"
        except GateError as error:
            reason = str(error)
        log.warning("upstream connection refresh failed", user_id=connection.user_id, resource=connection.resource, reason=reason)
        self._failed.put(id, self._clock(), total_length(id))
        raise UpstreamCredentialsUnavailable(NO_NEW_TOKEN)


def _headers(connection: AccountConnection) -> Headers:
    return ((b"authorization", b"Bearer " + connection.access_token.encode("ascii")),)
