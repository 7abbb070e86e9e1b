"""Account token loader: build the identity of an access token that a service account got from gate's authorization server."""

from dataclasses import dataclass, replace

from authorize.identity.agent_token_loader import MALFORMED, OTHER_RESOURCE
from authorize.identity.service_account_loader import ServiceAccountLoader
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.protected_resources import ResourceKind, requested_kind, requested_resource
from config.routes.route import Route
from databroker.records import SERVICE_ACCOUNT_TOKEN
from databroker.replica import Replica
from databroker.service_account_store import ServiceAccountToken
from foundation.auth_challenges import InvalidToken
from foundation.bounded_cache import MIB, BoundedCache
from foundation.crypto.agent_token import AgentTokenKind, matches_hash, parse_session_id

MAX_CACHED, CACHED_BYTES = 20_000, 1000  # an entry's record, resource and scopes, and its identity


@dataclass(slots=True)
class _VerifiedAccountToken:
    """Token that matched the record of `version`, at the resource of a route and host.  `identity` was derived from `base`.

    `writes` is the replica's write count at the last check of the record, -1 before the first.
    """

    id: str
    version: int
    generation: int  # of the replica
    token: ServiceAccountToken
    route: Route
    host_port: str
    base: Identity | None = None
    identity: Identity | None = None
    writes: int = -1


class AccountTokenLoader:
    """Cache of tokens, each valid while the replica has the same records of the token and the account."""

    def __init__(self, accounts: ServiceAccountLoader, replica: Replica):
        self._accounts = accounts
        self._replica = replica
        self._verified: BoundedCache[str, _VerifiedAccountToken] = BoundedCache(MAX_CACHED, 32 * MIB)

    def __repr__(self) -> str:
        return f"<AccountTokenLoader {len(self._verified)} cached>"

    # enforcement-point: Authorization server: Access tokens of service accounts at a route
    async def identify(self, token: str, request: PolicyRequest, route: Route | None, now: float) -> Identity | InvalidToken:
        """Return the identity of a token at the resource of this route, the only one that it is for.  Raises BrokerError."""
        known = self._verified.get(token)
        if known is None or known.route is not route or known.host_port != request.host_port or not self._is_current(known):
            self._verified.pop(token)
            loaded = await self._load(token, request, route)
            if isinstance(loaded, InvalidToken):
                return loaded
            known = loaded
        # At each use: the account may have ended, or its secret may have been rotated.
        account, secret_hash = known.token.account, known.token.secret_hash
        base = self._accounts.peek_holder(account, secret_hash, now) or await self._accounts.identify_holder(account, secret_hash, now)
        if isinstance(base, InvalidToken):
            return base
        if base is not known.base:
            known = replace(known, base=base, identity=_identity(base, known.token))
            self._verified.put(token, known, CACHED_BYTES)
        if requested_kind(known.route, request) is not ResourceKind.MCP:
            return InvalidToken(OTHER_RESOURCE)
        if now >= known.token.expires_at or known.identity is None:
            return InvalidToken("access token: it has expired")
        return known.identity

    def _is_current(self, known: _VerifiedAccountToken) -> bool:
        writes = self._replica.writes
        if known.writes == writes:
            return True
        is_current = known.generation == self._replica.generation and known.version == self._replica.version(
            SERVICE_ACCOUNT_TOKEN, known.id
        )
        known.writes = writes if is_current else -1
        return is_current

    async def _load(self, token: str, request: PolicyRequest, route: Route | None) -> _VerifiedAccountToken | InvalidToken:
        if not (id := parse_session_id(AgentTokenKind.SERVICE_ACCOUNT, token)):
            return InvalidToken(MALFORMED)
        if route is None or (resource := requested_resource(route, request)).kind is not ResourceKind.MCP:
            return InvalidToken(OTHER_RESOURCE)
        generation = self._replica.generation
        record = await self._replica.get(SERVICE_ACCOUNT_TOKEN, id)
        issued = ServiceAccountToken.parse(record) if record is not None else None
        if record is None or issued is None or not matches_hash(token, issued.token_hash):
            return InvalidToken("access token: it is unknown or was revoked")
        if issued.resource != resource.uri:
            return InvalidToken(OTHER_RESOURCE)
        return _VerifiedAccountToken(id, record.version, generation, issued, route, request.host_port)


def _identity(base: Identity, token: ServiceAccountToken) -> Identity:
    """Return the identity of the account with the scopes of its token.  The account is its own OAuth client (RFC 6749 4.4)."""
    expires_at = min(token.expires_at, base.expires_at)
    return replace(base, expires_at=expires_at, client_id=base.user_id, scopes=frozenset(token.scopes))
