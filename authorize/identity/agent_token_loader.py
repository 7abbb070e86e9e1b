"""Agent token loader: build the identity of an access token of gate's authorization server."""

from dataclasses import dataclass, replace

from authorize.identity.identity_loader import IdentityLoader
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.protected_resources import ProtectedResource
from databroker.agent_records import AccessToken
from databroker.broker_client import BrokerClient
from databroker.records import SESSION, Record, SessionRecord
from databroker.replica import Replica
from databroker.session_reader import SessionReader
from foundation.auth_challenges import InvalidToken
from foundation.bounded_cache import MIB, BoundedCache
from foundation.crypto.agent_token import AgentTokenKind, hash_token, matches_hash, parse_session_id

MAX_CACHED, CACHED_BYTES = 20_000, 600  # an entry's hash, resource and scopes; its identity is shared with the identity loader

MALFORMED = "agent token: it is mistyped or truncated"
OTHER_RESOURCE = "agent token: it is for another resource"


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """Token that matched the session record of `version`.  `identity` was derived from `base`."""

    version: int
    generation: int  # of the replica
    token: AccessToken
    resource: str
    base: Identity
    identity: Identity


class AgentTokenLoader:
    """Cache of verified tokens, each valid while the replica has the same session record."""

    def __init__(self, identities: IdentityLoader, sessions: SessionReader, replica: Replica, broker: BrokerClient | None):
        self._identities = identities
        self._sessions = sessions
        self._replica = replica
        self._broker = broker
        self._verified: BoundedCache[str, _VerifiedToken] = BoundedCache(MAX_CACHED, 32 * MIB)

    def __repr__(self) -> str:
        return f"<AgentTokenLoader {len(self._verified)} cached>"

    # enforcement-point: Authorization server: Access tokens at a route
    async def identify(self, token: str, request: PolicyRequest, resource: ProtectedResource | None, now: float) -> Identity | InvalidToken:
        """Return the identity of a token at this resource, the only one that it is for.  Raises BrokerError."""
        if not (session_id := parse_session_id(AgentTokenKind.ACCESS, token)):
            return InvalidToken(MALFORMED)
        if resource is None or not resource.covers(request.path):
            return InvalidToken(OTHER_RESOURCE)
        key = hash_token(token)
        known = self._verified.get(key)
        base = self._identities.peek(session_id, now)
        if (
            known is not None
            and known.base is base
            and known.version == self._replica.version(SESSION, session_id)
            and known.generation == self._replica.generation
        ):
            return _accept(known, resource, now)
        self._verified.pop(key)
        found = await self._verify(token, session_id, now)
        if isinstance(found, InvalidToken):
            return found
        if found.version == self._replica.version(SESSION, session_id) and found.generation == self._replica.generation:
            self._verified.put(key, found, CACHED_BYTES)
        return _accept(found, resource, now)

    async def _verify(self, token: str, session_id: str, now: float) -> _VerifiedToken | InvalidToken:
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
        expires_at = min(access_token.expires_at, base.expires_at)
        identity = replace(base, expires_at=expires_at, scopes=frozenset(access_token.scopes))
        object.__setattr__(identity, "sources", base.sources)
        return _VerifiedToken(record.version, generation, access_token, session.agent.resource, base, identity)

    def _match(self, token: str, record: Record | None) -> tuple[SessionRecord, AccessToken] | None:
        """Return the session and the access token of its record that has this token's hash."""
        session = self._sessions.read_valid(record) if record is not None else None
        if session is None or session.agent is None:
            return None
        found = [each for each in session.agent.access_tokens if matches_hash(token, each.hash)]
        return (session, found[0]) if found else None


def _accept(found: _VerifiedToken, resource: ProtectedResource, now: float) -> Identity | InvalidToken:
    if found.resource != resource.uri:
        return InvalidToken(OTHER_RESOURCE)
    if now >= found.identity.expires_at:
        return InvalidToken("agent token: it has expired")
    return found.identity
