"""Authorizer: the interface that the proxy uses.  AuthorizeService implements it in the same process, RemoteAuthorizer over gRPC."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from authorize.accessible_routes import AccessibleRoute
from authorize.identity.client_certificates import CertificateHosts
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Decision
from authorize.policy.identity import Identity
from authorize.policy.mcp_message import McpMessage
from authorize.policy.paths.canonical import canonical_host
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.route_settings import default_ports, route_table
from authorize.upstream.identity_headers import Headers
from config.options import Options
from config.routes.upstreams.upstream_credentials import injects_credentials
from databroker.broker_client import BrokerPageContext
from foundation.errors import BadRequest
from foundation.readiness import ReadinessReport
from foundation.web.page_context import request_context


class WithheldCredentials(Enum):
    """Credentials of a client that gate does not forward.  gate's own cookies and tokens are never forwarded."""

    GATE = "ours"
    AUTHORIZATION = "authorization"  # because an upstream could use the provider's token elsewhere
    ALL = "all"  # the decision does not depend on the caller


@dataclass(slots=True)  # not frozen, because one is created per request
class AuthorizationResult:
    """Result of authorizing a request.

    `identity_headers` is empty unless the decision is ALLOWED.

    `identity` is None if the caller is not signed in, or if the route is public and sends no identity headers.  From another process it
    has only the identifying fields, without groups and claims.

    `challenge` is the WWW-Authenticate value for a client that sent an invalid token (RFC 6750 3), because it cannot be redirected to
    sign-in.

    `token_error` is for the operator: the reason why a token was rejected.  It contains no secret and is never sent to a client.
    """

    decision: Decision
    identity: Identity | None
    identity_headers: Headers = ()
    challenge: str = ""
    token_error: str = ""
    # Known expiry in Unix seconds of the token, session or temporary access.  The result may end earlier for other reasons.
    valid_until: float = math.inf
    # Scopes that a denied access token lacks, and with which the request would be allowed.
    missing_scopes: tuple[str, ...] = ()
    # Tool of an MCP server that a denied call needs, and to which the user may request access.
    requestable_tool: str = ""

    @property
    def withheld_credentials(self) -> WithheldCredentials:
        """Return the credentials to withhold.  The decision alone determines them, so that no forwarding code can omit the step."""
        if self.decision.is_preflight:
            return WithheldCredentials.ALL
        has_oauth_token = self.identity is not None and self.identity.has_oauth_token
        return WithheldCredentials.AUTHORIZATION if has_oauth_token else WithheldCredentials.GATE


@dataclass(frozen=True, slots=True)
class Attestation:
    """Identity at a host with a signed assertion.  `assertion` is empty if no route of the host allows the user."""

    identity: Identity | None
    assertion: str = ""


@dataclass(frozen=True, slots=True)
class ShadowOutcome:
    """Outcome under the shadow policy.

    `compiled_route` is the deciding route, None if none matches.  `outcome` is an Outcome's value or AMBIGUOUS_PATH.
    """

    compiled_route: CompiledRoute | None
    outcome: str
    reason: str


class Authorizer(ABC):
    """Interface to authorization, as the proxy uses it.

    Methods that need only the configured routes give the same result in every process.  Coroutines depend on the process that decides,
    and raise BrokerError if it is unavailable.  Raises ConfigError if the routes are invalid.
    """

    identity_header_names: tuple[bytes, ...]  # every header that may carry identity to an upstream

    def __init__(self, options: Options, previous: "Authorizer | None" = None):
        self.default_ports = default_ports(options)
        self.has_shadow = False  # only the deciding process evaluates shadow rules
        self.routes: RouteTable = route_table(options, previous.routes if previous else None)
        self._credential_routes = frozenset(route.id for route in self.routes.routes() if injects_credentials(route.route, options))
        self._certificate_hosts = CertificateHosts(self.routes.routes())
        # Ports of the pages of a host that has only tunnels.  A tunnel's own port is a name on which gate does not listen.
        self._page_ports = tuple(dict.fromkeys((None, options.authenticate_service_url.port, *self.routes.ports)))

    @abstractmethod
    async def check(self, request: PolicyRequest, cookie_headers: Iterable[bytes], request_id: str = "") -> AuthorizationResult:
        """Return the decision on a request.  The deciding process logs it under `request_id`.

        Raises BadRequest if the path is ambiguous.
        """
        ...

    @abstractmethod
    async def identify(self, cookie_headers: Iterable[bytes], host_port: str) -> Identity | None:
        """Return the identity of the browser session at this host, or None."""
        ...

    @abstractmethod
    async def load_session_identity(self, session_id: str) -> Identity | None:
        """Return the identity of any session, with groups and claims, for administrators.  None if the session does not exist.

        Raises BrokerError.
        """
        ...

    @abstractmethod
    async def attest(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> Attestation: ...

    @abstractmethod
    async def accessible_routes(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> tuple[AccessibleRoute, ...]:
        """Return the routes that the user who is signed in at the host of `request` may open.  Empty without a session."""
        ...

    @abstractmethod
    async def allowed_calls(
        self, request: PolicyRequest, authorization: AuthorizationResult, cookie_headers: Iterable[bytes], calls: Sequence[McpMessage]
    ) -> Sequence[bool]:
        """Return for each call of an MCP server whether a list may have it.

        That is if it would be allowed in place of `request`, whose result is `authorization`, or its user may request access to its tool.
        """
        ...

    @abstractmethod
    async def credentials_for(
        self, authorization: AuthorizationResult, request: PolicyRequest, cookie_headers: Iterable[bytes], rejected: str = ""
    ) -> Headers:
        """Return gate's credentials for the upstream of an allowed request.  Raises UpstreamCredentialsUnavailable.

        `rejected` is the hash of a user's token that the upstream has rejected, if it has.  Raises AccountConnectionRequired if the user
        must connect an account at the upstream.
        """
        ...

    def serves_host(self, host: str, port: int | None) -> bool:
        """Return whether gate serves pages at this host.  It does at a tunnel's host, where users sign in for client applications."""
        return self.routes.has_host(host, port) or (port in self._page_ports and self.routes.has_tunnels_for(host))

    def audiences(self, request: PolicyRequest) -> tuple[str, ...]:
        """Return the audiences of credentials that are valid for this request.  For a tunnel, those of its host's pages on any port."""
        if not request.is_tunnel:
            return (request.host_port,)
        return tuple(request.host if port is None else f"{request.host}:{port}" for port in self._page_ports)

    def scheme_for(self, host: str, port: int | None) -> str:
        """Return the external scheme of a route host: `https` unless its routes differ, whatever the listener uses."""
        return self.routes.scheme_for(host, port)

    def is_route_origin(self, origin: str) -> bool:
        """Return whether a configured route serves pages of this Origin.  Wildcards count for the hosts that they match."""
        scheme, separator, authority = origin.partition("://")
        try:
            host, port = canonical_host(authority.encode("ascii"))
        except (BadRequest, UnicodeEncodeError):
            return False
        port = None if port in self.default_ports else port
        return bool(separator) and self.serves_host(host, port) and scheme == self.scheme_for(host, port)

    def is_public(self, request: PolicyRequest) -> bool:
        route = self.routes.match(request)
        return route is not None and route.route.allow_public_unauthenticated_access

    def injects_credentials(self, route: CompiledRoute) -> bool:
        """Return whether gate adds credentials for this route's upstream.  No other proxy may forward such requests."""
        return route.id in self._credential_routes

    def requests_client_certificate(self, server_name: str | None) -> bool:
        """Return whether to request a certificate from a TLS client with this server name.  None means no name."""
        return self._certificate_hosts.requires_certificate(server_name)

    # Only the deciding process overrides these (authorize/service.py).  Elsewhere there is no shadow policy, and no identity is an
    # administrator.

    async def evaluate_shadow(
        self, request: PolicyRequest, authorization: AuthorizationResult, cookie_headers: Iterable[bytes]
    ) -> ShadowOutcome | None:
        """Return the outcome if all shadow rules were enforced.  It must not affect the response."""
        return None

    def may_administer(self, identity: Identity) -> bool:
        return False


class AuthorizePageContext(BrokerPageContext, Protocol):
    """Page context with the authorizer.

    `configuration` is gateproject's ConfigurationStatus, and `provenance` is gateproject's ConfigProvenance.
    """

    @property
    def authorize(self) -> Authorizer: ...
    @property
    def configuration(self) -> Any: ...
    @property
    def provenance(self) -> Any: ...
    @property
    def readiness(self) -> Callable[[], ReadinessReport]: ...


page_context: Callable[[Any], AuthorizePageContext] = request_context
