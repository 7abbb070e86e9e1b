"""Credentials that gate adds for an upstream, and Kubernetes impersonation."""

import time
from collections.abc import Callable, Iterable

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import Identity
from authorize.policy.route_table import RouteTable
from authorize.upstream.cloud_serverless import IdentityTokens
from authorize.upstream.identity_headers import Headers, attested_email, warn_if_large
from authorize.upstream.provider_token_headers import ProviderTokens
from authorize.upstream.upstream_oauth_tokens import UpstreamOAuthTokens
from config.options import Options
from config.routes.upstreams.upstream_credentials import uses_serverless_auth
from databroker.broker_client import BrokerClient
from databroker.replica import Replica
from foundation.bounded_cache import MIB, BoundedCache, total_length
from foundation.errors import NoIdentity
from foundation.values import Url

MAX_CACHED = 50_000
MAX_CACHE_BYTES = 64 * MIB
# Kubernetes reserves these names.  Members of `system:masters` have every permission.
RESERVED = "system:"

ReleasedGroups = Callable[[CompiledRoute, Identity], Iterable[str]]


class UpstreamCredentials:
    """Credentials of gate for upstreams.

    They are never added to a preflight, which is not authenticated, nor to a response for another proxy, which its client may read.
    """

    def __init__(
        self,
        options: Options,
        table: RouteTable,
        released_groups: ReleasedGroups,
        clock: Callable[[], float] = time.time,
        broker: BrokerClient | None = None,
        replica: Replica | None = None,
    ):
        self._tokens = IdentityTokens(options, clock)
        self._provider_tokens = ProviderTokens(options, table.routes(), broker, clock)
        self._oauth_tokens = UpstreamOAuthTokens(options, table.routes(), broker, replica, clock)
        self._released_groups = released_groups
        self._clusters: dict[str, bytes] = {}
        self._audiences: dict[str, str] = {}
        self._basic: dict[str, Headers] = {}
        for compiled in table.routes():
            route = compiled.route
            if route.cluster_service_account_token is not None:
                self._clusters.setdefault(compiled.id, b"Bearer " + route.cluster_service_account_token.reveal().encode("ascii"))
            elif route.basic_auth is not None:
                self._basic.setdefault(compiled.id, ((b"authorization", route.basic_auth.authorization()),))
            elif uses_serverless_auth(route, options):
                self._audiences.setdefault(compiled.id, audience_for(route.to[0].url))
        self._cached: BoundedCache[tuple[str, str], tuple[Identity, Headers]] = BoundedCache(MAX_CACHED, MAX_CACHE_BYTES)

    def __repr__(self) -> str:
        return f"<UpstreamCredentials of {len(self._clusters)} clusters, {len(self._audiences)} serverless, {len(self._basic)} basic>"

    def needs_identity(self, route: CompiledRoute) -> bool:
        """Return whether the credentials are those of a user, also if no rule needs one."""
        return route.id in self._clusters or self._oauth_tokens.has_route(route)

    async def headers_for(self, route: CompiledRoute, identity: Identity | None, rejected: str = "") -> Headers:
        """Return the headers.  Raises UpstreamCredentialsUnavailable if a request would lack required credentials or an identity.

        `rejected` is the hash of a user's token that the upstream has rejected.
        """
        if self._oauth_tokens.has_route(route):
            token_headers = await self._oauth_tokens.headers_for(route, identity, rejected)
            return token_headers + await self._provider_tokens.headers_for(route, identity)
        credentials = await self._route_credentials(route, identity)
        return credentials + await self._provider_tokens.headers_for(route, identity)

    async def _route_credentials(self, route: CompiledRoute, identity: Identity | None) -> Headers:
        if (authorization := self._clusters.get(route.id)) is not None:
            return self._impersonation(route, identity, authorization)
        if (basic := self._basic.get(route.id)) is not None:
            return basic
        if (audience := self._audiences.get(route.id)) is not None:
            return ((b"authorization", b"Bearer " + (await self._tokens.token_for(audience)).encode("ascii")),)
        return ()

    def _impersonation(self, route: CompiledRoute, identity: Identity | None, authorization: bytes) -> Headers:
        if identity is None:
            # Without Impersonate-User the cluster would authorize the service account itself.
            raise NoIdentity("impersonation requires a signed-in user")
        key = (identity.session_id, route.id)
        cached = self._cached.get(key)
        if cached is not None and cached[0] is identity:
            return cached[1]
        headers = (
            (b"authorization", authorization),
            (b"impersonate-user", impersonated_user(identity)),
            *((b"impersonate-group", group.encode("ascii")) for group in self._released_groups(route, identity) if _is_valid_name(group)),
        )
        warn_if_large(headers, route, identity)
        self._cached.put(key, (identity, headers), total_length(*key, headers))
        return headers


def audience_for(upstream: Url) -> str:
    """Return the audience of a serverless service: its https URL without a path."""
    return Url("https", upstream.host, upstream.port).origin


# enforcement-point: Upstream requests: Kubernetes impersonation
def impersonated_user(identity: Identity) -> bytes:
    """Return the user to impersonate: the verified address, else `provider/subject`.

    An address that could be parsed as the latter is not used.
    """
    email = attested_email(identity)
    user = email if email and "/" not in email and _is_valid_name(email) else identity.principal_id
    if not _is_valid_name(user):
        raise NoIdentity("the signed-in user has no name for impersonation")
    return user.encode("ascii")


def _is_valid_name(name: str) -> bool:
    """Return whether a name is valid as it is.  Clusters decode nothing, so an escaped name would denote another user."""
    return name.isascii() and name.isprintable() and name == name.strip() and not name.lower().startswith(RESERVED)
