"""Agent token loader: build the identity of an access token of gate's authorization server."""

from dataclasses import dataclass, replace

from authorize.identity.identity_loader import IdentityLoader
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.protected_resources import ProtectedResource, ResourceKind, requested_kind, requested_resource
from config.routes.route import Route
from databroker.agent_records import AccessToken, AgentAuthorization
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
SESSION_ENDED = "agent token: its session has ended"


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """Token that matched its session's record, at a resource of a route and host.  `identity` was derived from `base`.

    `base` is current only while the record is unchanged.
    """

    session_id: str
    generation: int  # of the replica
    route: Route
    host_port: str
    kind: ResourceKind
    base: Identity
    identity: Identity

    def is_for(self, route: Route | None, request: PolicyRequest) -> bool:
        """Return whether the request belongs to the same resource.  A host is one resource, whichever of its routes matches."""
        if route is None or self.host_port != request.host_port or self.kind is not requested_kind(route, request):
            return False
        return self.route is route or self.kind is ResourceKind.HOST


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
        """Return the identity of a token at the resource of this request, the only one that it is for.  Raises BrokerError."""
        known = self._verified.get(token)
        if (
            known is not None
            and known.base is self._identities.peek(known.session_id, now)
            and known.generation == self._replica.generation
            and known.is_for(route, request)
        ):
            return _accept(known, now)
        self._verified.pop(token)
        if not (session_id := parse_session_id(AgentTokenKind.ACCESS, token)):
            return InvalidToken(MALFORMED)
        if route is None:
            return InvalidToken(OTHER_RESOURCE)
        found = await self._verify(token, session_id, requested_resource(route, request), request.host_port, now)
        if isinstance(found, InvalidToken):
            return found
        version, verified = found
        # The identity and the token's record must be of one version, because only the identity is compared later.
        is_current = version == self._replica.version(SESSION, session_id) and verified.base is self._identities.peek(session_id, now)
        if is_current and verified.generation == self._replica.generation:
            self._verified.put(token, verified, CACHED_BYTES)
        return _accept(verified, now)

    # enforcement-point: Authorization server: Streams that outlive their access token
    async def identify_stream(self, session_id: str, request: PolicyRequest, route: Route | None, now: float) -> Identity | InvalidToken:
        """Return the identity of the session whose access token opened this stream.  Raises BrokerError."""
        session = self._read(await self._replica.get(SESSION, session_id))
        identity = await self._identities.find_agent_identity(session_id, now)
        if session is None or session.agent is None or identity is None:
            return InvalidToken(SESSION_ENDED)
        if route is None or not _is_for(session.agent, requested_resource(route, request)):
            return InvalidToken(OTHER_RESOURCE)
        return identity

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
            return InvalidToken(SESSION_ENDED)
        if not _is_for(session.agent, resource):
            return InvalidToken(OTHER_RESOURCE)
        expires_at = min(access_token.expires_at, base.expires_at)
        identity = replace(base, expires_at=expires_at, scopes=frozenset(access_token.scopes))
        object.__setattr__(identity, "sources", base.sources)
        return record.version, _VerifiedToken(session_id, generation, resource.route, host_port, resource.kind, base, identity)

    def _match(self, token: str, record: Record | None) -> tuple[SessionRecord, AccessToken] | None:
        """Return the session and the access token of its record that has this token's hash."""
        session = self._read(record)
        if session is None or session.agent is None:
            return None
        found = [each for each in session.agent.access_tokens if matches_hash(token, each.hash)]
        return (session, found[0]) if found else None

    def _read(self, record: Record | None) -> SessionRecord | None:
        return self._sessions.read_valid(record) if record is not None else None


def _is_for(agent: AgentAuthorization, resource: ProtectedResource) -> bool:
    return agent.resource == resource.uri and resource.accepts(agent.client_id)


def _accept(found: _VerifiedToken, now: float) -> Identity | InvalidToken:
    if now >= found.identity.expires_at:
        return InvalidToken("agent token: it has expired")
    return found.identity
