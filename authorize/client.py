"""Authorizer: the interface by which the proxy asks; AuthorizeService in the same process, else one over gRPC."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from authorize.openings import Opening
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Decision
from authorize.policy.identity import Identity
from authorize.policy.request import AccessRequest
from authorize.policy.route_table import RouteTable
from authorize.upstream.identity_headers import Headers
from databroker.client import BrokerPageContext
from foundation.readiness import ReadinessReport
from foundation.web.page_context import request_context


class WithheldCredentials(Enum):
    """Credentials of a client that go no further than gate; a cookie and a token of gate's own never do."""

    OURS = "ours"
    AUTHORIZATION = "authorization"  # a provider's token let its bearer in: an upstream could use it elsewhere
    ALL = "all"  # let in whoever asks


@dataclass(slots=True)  # not frozen: one is made for each request
class Check:
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
    refused_token: str = ""
    # Unix seconds of an end that is known beforehand, whatever else may end it: of a token, a session, access for a while.
    ends: float = math.inf

    @property
    def withheld(self) -> WithheldCredentials:
        """Credentials to withhold, by what was decided, so that nobody who sends the request on can forget it."""
        if self.decision.is_preflight:
            return WithheldCredentials.ALL
        is_bearer = self.identity is not None and self.identity.is_bearer
        return WithheldCredentials.AUTHORIZATION if is_bearer else WithheldCredentials.OURS


@dataclass(frozen=True, slots=True)
class Attestation:
    """Attestation of who is signed in at a host; `assertion` is empty where none of its routes lets them in: then it says nothing."""

    identity: Identity | None
    assertion: str = ""


@dataclass(frozen=True, slots=True)
class ShadowOutcome:
    """Outcome under the shadow policy.  `route` would have decided, None for none; `outcome` is an Outcome's value or TWO_READINGS."""

    route: CompiledRoute | None
    outcome: str
    reason: str


class Authorizer(Protocol):
    """Authorize as the proxy sees it.  Coroutines raise BrokerError where no answer can be had; the rest follows from the configuration."""

    default_ports: frozenset[int]
    routes: RouteTable
    has_shadow: bool  # whether anything is in `mode: shadow`, and known here

    async def check(self, request: AccessRequest, cookie_headers: Iterable[bytes], request_id: str = "") -> Check:
        """Decision on a request; BadRequest where its path has two readings.  Who decides logs it by `request_id`."""
        ...

    async def identify(self, cookie_headers: Iterable[bytes], host_port: str) -> Identity | None:
        """Identity of who is signed in at this host; None for nobody."""
        ...

    async def identity_of_session(self, session_id: str) -> Identity | None:
        """Identity of somebody else's session, with groups and claims, for administrators; None where there is none.  BrokerError."""
        ...

    async def attest(self, request: AccessRequest, cookie_headers: Iterable[bytes]) -> Attestation: ...

    async def openings(self, request: AccessRequest, cookie_headers: Iterable[bytes]) -> tuple[Opening, ...]:
        """Openings of who is signed in at the host of `request`, by which they ask; none for nobody."""
        ...

    async def credentials_for(self, check: Check, request: AccessRequest, cookie_headers: Iterable[bytes]) -> Headers:
        """Credentials of ours that the upstream wants to see of an allowed request; CredentialsError.  Only for what we carry ourselves."""
        ...

    def shows_credentials(self, route: CompiledRoute) -> bool:
        """Whether this route's upstream sees credentials of ours: then nobody but us may carry its requests."""
        ...

    @property
    def identity_header_names(self) -> tuple[bytes, ...]:
        """Names of all headers that may tell an upstream about the caller."""
        ...

    async def would_be(self, request: AccessRequest, check: Check, cookie_headers: Iterable[bytes]) -> ShadowOutcome | None:
        """Shadow outcome of this request, were all that is in shadow enforced; never a reason to answer it otherwise."""
        ...

    def may_administer(self, identity: Identity) -> bool: ...

    def knows_host(self, host: str, port: int | None) -> bool: ...

    def scheme_of(self, host: str, port: int | None) -> str: ...

    def is_route_origin(self, origin: str) -> bool: ...

    def is_public(self, request: AccessRequest) -> bool: ...

    def wants_certificate(self, server_name: str | None) -> bool: ...


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
