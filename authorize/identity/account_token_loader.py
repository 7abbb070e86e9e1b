"""Account token loader: build the identity of an access token that a service account got from gate's authorization server."""

from dataclasses import dataclass, replace

from authorize.identity.agent_token_loader import MALFORMED, OTHER_RESOURCE
from authorize.identity.service_account_loader import ServiceAccountLoader
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.protected_resources import ProtectedResource
from databroker.records import SERVICE_ACCOUNT_TOKEN
from databroker.replica import Replica
from databroker.service_account_store import ServiceAccountToken
from foundation.auth_challenges import InvalidToken
from foundation.bounded_cache import MIB, BoundedCache
from foundation.crypto.agent_token import AgentTokenKind, matches_hash, parse_session_id

MAX_CACHED, CACHED_BYTES = 20_000, 1000  # an entry's record, resource and scopes, and its identity


@dataclass(frozen=True, slots=True)
class _VerifiedAccountToken:
    """Token in the record of `version`.  `identity` was derived from `base`."""

    version: int
    generation: int  # of the replica
    token: ServiceAccountToken
    base: Identity
    identity: Identity


class AccountTokenLoader:
    """Cache of tokens, each valid while the replica has the same records of the token and the account."""

    def __init__(self, accounts: ServiceAccountLoader, replica: Replica):
        self._accounts = accounts
        self._replica = replica
        self._verified: BoundedCache[str, _VerifiedAccountToken] = BoundedCache(MAX_CACHED, 32 * MIB)

    def __repr__(self) -> str:
        return f"<AccountTokenLoader {len(self._verified)} cached>"

    # enforcement-point: Authorization server: Access tokens of service accounts at a route
    async def identify(self, token: str, request: PolicyRequest, resource: ProtectedResource | None, now: float) -> Identity | InvalidToken:
        """Return the identity of a token at this resource, the only one that it is for.  Raises BrokerError."""
        if not (id := parse_session_id(AgentTokenKind.SERVICE_ACCOUNT, token)):
            return InvalidToken(MALFORMED)
        if resource is None or not resource.covers(request.path):
            return InvalidToken(OTHER_RESOURCE)
        found: _VerifiedAccountToken | InvalidToken | None = self._verified.get(id)
        if not isinstance(found, _VerifiedAccountToken) or not self._is_current(id, found):
            self._verified.pop(id)
            found = await self._load(id, now)
        if isinstance(found, InvalidToken):
            return found
        if not matches_hash(token, found.token.token_hash):
            return InvalidToken("access token: it is unknown or was revoked")
        # At each use: the account's secret may have been rotated.
        base = await self._accounts.identify_holder(found.token.account, found.token.secret_hash, now)
        if isinstance(base, InvalidToken):
            return base
        if found.token.resource != resource.uri:
            return InvalidToken(OTHER_RESOURCE)
        if now >= found.token.expires_at:
            return InvalidToken("access token: it has expired")
        if base is not found.base:
            found = replace(found, base=base, identity=_identity(base, found.token))
        self._verified.put(id, found, CACHED_BYTES)
        return found.identity

    def _is_current(self, id: str, found: _VerifiedAccountToken) -> bool:
        return found.generation == self._replica.generation and found.version == self._replica.version(SERVICE_ACCOUNT_TOKEN, id)

    async def _load(self, id: str, now: float) -> _VerifiedAccountToken | InvalidToken:
        generation = self._replica.generation
        record = await self._replica.get(SERVICE_ACCOUNT_TOKEN, id)
        token = ServiceAccountToken.parse(record) if record is not None else None
        if record is None or token is None:
            return InvalidToken("access token: it is unknown or was revoked")
        base = await self._accounts.identify_holder(token.account, token.secret_hash, now)
        if isinstance(base, InvalidToken):
            return base
        return _VerifiedAccountToken(record.version, generation, token, base, _identity(base, token))


def _identity(base: Identity, token: ServiceAccountToken) -> Identity:
    """Return the identity of the account with the scopes of its token.  The account is its own OAuth client (RFC 6749 4.4)."""
    expires_at = min(token.expires_at, base.expires_at)
    return replace(base, expires_at=expires_at, client_id=base.user_id, scopes=frozenset(token.scopes))
