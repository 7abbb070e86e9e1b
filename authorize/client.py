"""What may the proxy ask of authorize?  In one process it asks `AuthorizeService` itself, else the one of another by gRPC."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from authorize.decisions.shadow import ShadowOutcome
from authorize.identity.loader import IdentitySources
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Decision
from authorize.policy.identity import Identity
from authorize.policy.request import AccessRequest
from authorize.policy.route_table import RouteTable
from authorize.upstream.identity_headers import Headers


class Withheld(Enum):
    """Which of a client's credentials go no further than gate; a cookie and a token of gate's own never do."""

    OURS = "ours"
    AUTHORIZATION = "authorization"  # a provider's token let its bearer in: an upstream could use it elsewhere
    ALL = "all"  # let in whoever asks


@dataclass(frozen=True, slots=True)
class Check:
    """`identity_headers` are empty unless the decision is ALLOWED.

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

    @property
    def withheld(self) -> Withheld:
        """Follows from what was decided, so that nobody who sends the request on can forget it."""
        if self.decision.is_preflight:
            return Withheld.ALL
        is_bearer = self.identity is not None and self.identity.is_bearer
        return Withheld.AUTHORIZATION if is_bearer else Withheld.OURS


@dataclass(frozen=True, slots=True)
class Attestation:
    """Who is signed in at a host; `assertion` is empty where no route of it lets them in: then nothing is attested about them."""

    identity: Identity | None
    assertion: str = ""


class Authorizer(Protocol):
    """What needs an answer raises BrokerError where none can be had; the rest follows from the configuration."""

    default_ports: frozenset[int]
    routes: RouteTable

    async def check(self, request: AccessRequest, cookie_headers: Iterable[bytes], request_id: str = "") -> Check:
        """BadRequest where the path has two readings.  By `request_id` another process, which decides, keeps what it decided."""
        ...

    async def identify(self, cookie_headers: Iterable[bytes], host_port: str) -> Identity | None:
        """Who is signed in at this host; None for nobody."""
        ...

    async def attest(self, request: AccessRequest, cookie_headers: Iterable[bytes]) -> Attestation: ...

    async def credentials_for(self, check: Check, request: AccessRequest, cookie_headers: Iterable[bytes]) -> Headers:
        """What of ours the upstream wants to see of a request that is let in; CredentialsError.  Only for what we carry ourselves."""
        ...

    def shows_credentials(self, route: CompiledRoute) -> bool:
        """Is there anything of that for this route?  Then nobody but us may carry its requests."""
        ...

    @property
    def identity_header_names(self) -> tuple[bytes, ...]:
        """Every header that may tell an upstream about the caller."""
        ...

    @property
    def has_shadow(self) -> bool:
        """Is anything in `mode: shadow`, and known here?"""
        ...

    async def would_be(self, request: AccessRequest, check: Check, cookie_headers: Iterable[bytes]) -> ShadowOutcome | None:
        """What this request would have come to, were all that is in shadow enforced; never a reason to answer it otherwise."""
        ...

    def sources_of(self, identity: Identity) -> IdentitySources | None:
        """The records that this identity was made of, while they are remembered here."""
        ...

    def may_administer(self, identity: Identity) -> bool: ...

    def knows_host(self, host: str, port: int | None) -> bool: ...

    def scheme_of(self, host: str, port: int | None) -> str: ...

    def is_route_origin(self, origin: str) -> bool: ...

    def is_public(self, request: AccessRequest) -> bool: ...

    def wants_certificate(self, server_name: str | None) -> bool: ...
