"""Authorizer: the interface by which the proxy asks; AuthorizeService in the same process, else one over gRPC."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from authorize.accessible_routes import AccessibleRoute
from authorize.identity.client_certificates import CertificateHosts
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Decision
from authorize.policy.identity import Identity
from authorize.policy.paths.canonical import canonical_host
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.route_settings import default_ports, route_table
from authorize.upstream.identity_headers import Headers
from config.options import Options
from config.routes.upstreams.upstream_credentials import exposes_credentials
from databroker.broker_client import BrokerPageContext
from foundation.errors import BadRequest
from foundation.readiness import ReadinessReport
from foundation.web.page_context import request_context


class WithheldCredentials(Enum):
    """Credentials of a client that go no further than gate; a cookie and a token of gate's own never do."""

    GATE = "ours"
    AUTHORIZATION = "authorization"  # a provider's token let its bearer in: an upstream could use it elsewhere
    ALL = "all"  # let in whoever asks


@dataclass(slots=True)  # not frozen: one is made for each request
class AuthorizationResult:
    """Outcome of a check.  `identity_headers` are empty unless the decision is ALLOWED.

    `identity` is None where nobody is signed in, and where the route is open to all and tells its upstream nothing.  From another
    process it is only who this is: what rules compare stays there.

    `challenge` is said to a program whose token is not good (RFC 6750 3): a sign-in is nothing for it.  `refused_token` says to the
    operator what is wrong with a token that was shown and named nobody; it has no secret, and no client is told.
    """

    decision: Decision
    identity: Identity | None
    identity_headers: Headers = ()
    challenge: str = ""
    token_error: str = ""
    # Unix seconds of an end that is known beforehand, whatever else may end it: of a token, a session, access for a while.
    valid_until: float = math.inf

    @property
    def withheld_credentials(self) -> WithheldCredentials:
        """Credentials to withhold, by what was decided, so that nobody who sends the request on can forget it."""
        if self.decision.is_preflight:
            return WithheldCredentials.ALL
        is_bearer = self.identity is not None and self.identity.is_bearer
        return WithheldCredentials.AUTHORIZATION if is_bearer else WithheldCredentials.GATE


@dataclass(frozen=True, slots=True)
class Attestation:
    """Attestation of who is signed in at a host; `assertion` is empty where none of its routes lets them in: then it says nothing."""

    identity: Identity | None
    assertion: str = ""


@dataclass(frozen=True, slots=True)
class ShadowOutcome:
    """Outcome under the shadow policy.  `route` would have decided, None for none; `outcome` is an Outcome's value or AMBIGUOUS_PATH."""

    route: CompiledRoute | None
    outcome: str
    reason: str


class Authorizer(ABC):
    """Authorize as the proxy sees it: what follows from the configured routes alone, the same in every process that serves people, and the
    answers of whoever decides, whose coroutines raise BrokerError where none can be had.  ConfigError where the routes are wrong.
    """

    identity_header_names: tuple[bytes, ...]  # all that may tell an upstream about the caller

    def __init__(self, options: Options, previous: "Authorizer | None" = None):
        self.default_ports = default_ports(options)
        self.has_shadow = False  # what is in shadow only the process that decides can say
        self.routes: RouteTable = route_table(options, previous.routes if previous else None)
        self._credential_routes = frozenset(route.id for route in self.routes.routes() if exposes_credentials(route.route, options))
        self._certificate_hosts = CertificateHosts(self.routes.routes())
        # Where browsers reach the pages of a host that has tunnels alone: a tunnel's own port is a name, nobody listens there.
        self._page_ports = tuple(dict.fromkeys((None, options.authenticate_service_url.port, *self.routes.ports)))

    @abstractmethod
    async def check(self, request: PolicyRequest, cookie_headers: Iterable[bytes], request_id: str = "") -> AuthorizationResult:
        """Decision on a request; BadRequest where its path has two readings.  Who decides logs it by `request_id`."""
        ...

    @abstractmethod
    async def identify(self, cookie_headers: Iterable[bytes], host_port: str) -> Identity | None:
        """Identity of who is signed in at this host; None for nobody."""
        ...

    @abstractmethod
    async def load_session_identity(self, session_id: str) -> Identity | None:
        """Identity of somebody else's session, with groups and claims, for administrators; None where there is none.  BrokerError."""
        ...

    @abstractmethod
    async def attest(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> Attestation: ...

    @abstractmethod
    async def accessible_routes(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> tuple[AccessibleRoute, ...]:
        """Openings of who is signed in at the host of `request`, by which they ask; none for nobody."""
        ...

    @abstractmethod
    async def credentials_for(self, check: AuthorizationResult, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> Headers:
        """Credentials of ours that the upstream wants to see of an allowed request; UpstreamCredentialsUnavailable."""
        ...

    def serves_host(self, host: str, port: int | None) -> bool:
        """Whether this host has pages of ours.  The host of tunnels has: people sign in there for their programs."""
        return self.routes.has_host(host, port) or (port in self._page_ports and self.routes.has_tunnels_at(host))

    def audiences(self, request: PolicyRequest) -> tuple[str, ...]:
        """Audiences of a credential that counts in this request.  For a tunnel, one of its host's pages, whatever its port."""
        if not request.is_tunnel:
            return (request.host_port,)
        return tuple(request.host if port is None else f"{request.host}:{port}" for port in self._page_ports)

    def scheme_for(self, host: str, port: int | None) -> str:
        """Scheme of a route host outside: `https` unless its routes say otherwise, whatever our listener speaks."""
        return self.routes.scheme_for(host, port)

    def is_route_origin(self, origin: str) -> bool:
        """Whether this is the Origin of pages that a configured route serves.  Wildcards count for what they match."""
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
        """Whether this route's upstream sees credentials of ours: then nobody but us may carry its requests."""
        return route.id in self._credential_routes

    def requests_client_certificate(self, server_name: str | None) -> bool:
        """Whether a TLS client that asks for this name (None: for no name) is to be asked for a certificate."""
        return self._certificate_hosts.requires_certificate(server_name)

    # What only the process that decides can say (authorize/service.py); in any other nothing is known, and nobody is an administrator.

    async def evaluate_shadow(
        self, request: PolicyRequest, check: AuthorizationResult, cookie_headers: Iterable[bytes]
    ) -> ShadowOutcome | None:
        """Shadow outcome of this request, were all that is in shadow enforced; never a reason to answer it otherwise."""
        return None

    def may_administer(self, identity: Identity) -> bool:
        return False


class AuthorizePageContext(BrokerPageContext, Protocol):
    """Page context with the authorizer.  `configuration` is the status of what is in force, gateproject's ConfigurationStatus, `in_force`
    is what is known of it, gateproject's InForce.
    """

    @property
    def authorize(self) -> Authorizer: ...
    @property
    def configuration(self) -> Any: ...
    @property
    def in_force(self) -> Any: ...
    @property
    def readiness(self) -> Callable[[], ReadinessReport]: ...


page_context: Callable[[Any], AuthorizePageContext] = request_context
