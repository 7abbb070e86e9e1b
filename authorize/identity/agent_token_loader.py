"""Agent token loader: build the identity of an access token of gate's authorization server."""

from dataclasses import dataclass, replace

from authorize.identity.identity_loader import IdentityLoader
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.protected_resources import ProtectedResource, resource_for
from config.routes.route import Route
from config.routes.route_mcp import is_mcp_endpoint
from databroker.agent_records import AccessToken
from databroker.broker_client import BrokerClient
from databroker.records import SESSION, Record, SessionRecord
from databroker.replica import Replica
from databroker.session_reader import SessionReader
from foundation.auth_challenges import InvalidToken
from foundation.bounded_cache import MIB, BoundedCache
from foundation.crypto.agent_token import AgentTokenKind, matches_hash, parse_session_id

MAX_CACHED, CACHED_BYTES = 20_000, 600  # an entry's hash, resource and scopes; its identity is shared with the identity loader

MALFORMED = "agent token: it is mistyped or truncated"
OTHER_RESOURCE = "agent token: it is for another resource"


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """Token that matched its session's record, at the resource of a route and host.  `identity` was derived from `base`.

    `base` is current only while the record is unchanged.
    """

    session_id: str
    generation: int  # of the replica
    route: Route
    host_port: str
    base: Identity
    identity: Identity


class AgentTokenLoader:
    """Cache of verified tokens, each valid while the replica has the same session record.

    As for session cookies, its keys are what clients send, so that a cached check computes no hash.
    """

    def __init__(self, identities: IdentityLoader, sessions: SessionReader, replica: Replica, broker: BrokerClient | None):
        self._identities = identities
        self._sessions = sessions
        self._replica = replica
        self._broker = broker
        self._verified: BoundedCache[str, _VerifiedToken] = BoundedCache(MAX_CACHED, 32 * MIB)

    def __repr__(self) -> str:
        return f"<AgentTokenLoader {len(self._verified)} cached>"

    # enforcement-point: Authorization server: Access tokens at a route
    async def identify(self, token: str, request: PolicyRequest, route: Route | None, now: float) -> Identity | InvalidToken:
        """Return the identity of a token at the resource of this route, the only one that it is for.  Raises BrokerError."""
        known = self._verified.get(token)
        if (
            known is not None
            and known.base is self._identities.peek(known.session_id, now)
            and known.generation == self._replica.generation
            and known.route is route
            and known.host_port == request.host_port
        ):
            return _accept(known, request, now)
        self._verified.pop(token)
        if not (session_id := parse_session_id(AgentTokenKind.ACCESS, token)):
            return InvalidToken(MALFORMED)
        resource = resource_for(route, request.host_port) if route is not None else None
        if route is None or resource is None or not resource.covers(request.path):
            return InvalidToken(OTHER_RESOURCE)
        found = await self._verify(token, session_id, resource, request.host_port, now)
        if isinstance(found, InvalidToken):
            return found
        version, verified = found
        # The identity and the token's record must be of one version, because only the identity is compared later.
        is_current = version == self._replica.version(SESSION, session_id) and verified.base is self._identities.peek(session_id, now)
        if is_current and verified.generation == self._replica.generation:
            self._verified.put(token, verified, CACHED_BYTES)
        return _accept(verified, request, now)

    async def _verify(
        self, token: str, session_id: str, resource: ProtectedResource, host_port: str, now: float
    ) -> tuple[int, _VerifiedToken] | InvalidToken:
        """Return (version of the session's record, verified token)."""
        generation = self._replica.generation
        record = await self._replica.get(SESSION, session_id)
        issued = self._match(token, record)
        if issued is None and record is not None and self._broker is not None:
            # The token may be newer than the replica, because its client was served by another process a moment ago.
            record = await self._broker.get(SESSION, session_id)
            issued = self._match(token, record)
        if issued is None or record is None:
            return InvalidToken("agent token: its session has ended, or it was replaced")
        session, access_token = issued
        base = await self._identities.find_agent_identity(session_id, now)
        if base is None or session.agent is None:
            return InvalidToken("agent token: its session has ended")
        if session.agent.resource != resource.uri:
            return InvalidToken(OTHER_RESOURCE)
        expires_at = min(access_token.expires_at, base.expires_at)
        identity = replace(base, expires_at=expires_at, scopes=frozenset(access_token.scopes))
        object.__setattr__(identity, "sources", base.sources)
        return record.version, _VerifiedToken(session_id, generation, resource.route, host_port, base, identity)

    def _match(self, token: str, record: Record | None) -> tuple[SessionRecord, AccessToken] | None:
        """Return the session and the access token of its record that has this token's hash."""
        session = self._sessions.read_valid(record) if record is not None else None
        if session is None or session.agent is None:
            return None
        found = [each for each in session.agent.access_tokens if matches_hash(token, each.hash)]
        return (session, found[0]) if found else None


def _accept(found: _VerifiedToken, request: PolicyRequest, now: float) -> Identity | InvalidToken:
    if not is_mcp_endpoint(found.route, request.path):
        return InvalidToken(OTHER_RESOURCE)
    if now >= found.identity.expires_at:
        return InvalidToken("agent token: it has expired")
    return found.identity
