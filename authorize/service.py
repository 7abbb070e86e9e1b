"""The front door of authorize: cookies and a request in, a decision and what the upstream is told out."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from authorize.client_certificates import CertificateHosts, ClientCertificates
from authorize.identity_headers import Headers, IdentityHeaders
from authorize.identity_loader import IdentityLoader
from authorize.policy import criteria
from authorize.policy.canonical import canonical_host
from authorize.policy.decision import NO_ROUTE, Decision, Outcome, judge
from authorize.policy.identity import Identity
from authorize.policy.request import AccessRequest
from authorize.state import default_ports, route_table
from databroker.replica import Replica
from gateproject.config.authorize import claimed_groups
from gateproject.config.options import Options
from gateproject.crypto.session_cookie import SessionCookies
from gateproject.crypto.signing_key import SigningKey
from gateproject.errors import BadRequest, BrokerError, SealError

# The administrators' rules look at the person only.
ADMIN_REQUEST = AccessRequest(method="GET", host="", port=None, path="/")


@dataclass(frozen=True, slots=True)
class Check:
    """`identity_headers` are empty unless the decision is ALLOWED.

    `identity` is None where nobody is signed in, and where the route is open to all and tells its upstream nothing.
    """

    decision: Decision
    identity: Identity | None
    identity_headers: Headers = ()


class AuthorizeService:
    """Frozen after construction: a reload builds another one over the same replica.  ConfigError where the routes are wrong."""

    def __init__(self, options: Options, replica: Replica, signing_key: SigningKey, clock: Callable[[], float] = time.time):
        self.default_ports = default_ports(options)
        self.routes = route_table(options)
        self._certificates = ClientCertificates()
        self._certificate_hosts = CertificateHosts(self.routes.routes())
        self.identity_headers = IdentityHeaders(options, signing_key)
        self._cookies = SessionCookies(options)
        self._identities = IdentityLoader(replica, claimed_groups(options))
        self._clock = clock
        self._admin_rules = (criteria.users(options.admin_allowed_users), criteria.groups(options.admin_allowed_groups))

    async def check(self, request: AccessRequest, cookie_headers: Iterable[bytes]) -> Check:
        """BadRequest where the path has two readings; BrokerError where only the unreachable data broker could tell."""
        route = self.routes.match(request)
        if route is None:
            return Check(NO_ROUTE, None)
        now = self._clock()
        if route.client_ca is not None:
            request = self._certificates.judged(request, route.client_ca, now)
        # Judged as nobody first: what is open to everyone must work while the data broker is down.
        decision = judge(request, None, route, now)
        identity = None
        if decision.outcome is Outcome.SIGN_IN:
            identity = await self._identify(cookie_headers, request.host_port, now)
            decision = judge(request, identity, route, now) if identity is not None else decision
        elif route.route.pass_identity_headers and not decision.is_preflight:
            identity = await self._identify_if_possible(cookie_headers, request.host_port, now)
        is_told = decision.is_allowed and not decision.is_preflight
        headers = self.identity_headers.headers_for(request, route, identity, now) if is_told else ()
        return Check(decision, identity, headers)

    def knows_host(self, host: str, port: int | None) -> bool:
        return self.routes.knows_host(host, port)

    def scheme_of(self, host: str, port: int | None) -> str:
        """The external scheme of a route host: `https` unless its routes say otherwise, whatever our listener speaks."""
        return self.routes.scheme_of(host, port)

    def is_route_origin(self, origin: str) -> bool:
        """Is this the Origin of pages that a configured route serves?  Wildcards count for what they match."""
        scheme, separator, authority = origin.partition("://")
        try:
            host, port = canonical_host(authority.encode("ascii"))
        except (BadRequest, UnicodeEncodeError):
            return False
        port = None if port in self.default_ports else port
        return bool(separator) and self.knows_host(host, port) and scheme == self.scheme_of(host, port)

    def is_public(self, request: AccessRequest) -> bool:
        route = self.routes.match(request)
        return route is not None and route.route.allow_public_unauthenticated_access

    def may_enter_host(self, request: AccessRequest, identity: Identity) -> bool:
        """Does any route of this host let this person in?  Where none does, nothing is attested about them for it."""
        now = self._clock()
        routes = self.routes.routes_of(request.host, request.port)
        return any(judge(self._certificates.judged(request, route.client_ca, now), identity, route, now).is_allowed for route in routes)

    def wants_certificate(self, server_name: str | None) -> bool:
        """Should a TLS client that asks for this name (None: for no name) be asked for a certificate?"""
        return self._certificate_hosts.include(server_name)

    def may_administer(self, identity: Identity) -> bool:
        """By the same rules as routes: `admin_allowed_users` and `admin_allowed_groups`, any hit in either."""
        return any(rule(ADMIN_REQUEST, identity).holds for rule in self._admin_rules)

    async def identify(self, cookie_headers: Iterable[bytes], host_port: str) -> Identity | None:
        """Who is signed in at this host; None for nobody.  Raises BrokerError."""
        return await self._identify(cookie_headers, host_port, self._clock())

    async def _identify(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Identity | None:
        """The first cookie of our name that opens here and whose session lives: a planted one never hides the real one."""
        for value in self._cookies.read(cookie_headers):
            try:
                token = self._cookies.open(value, host_port, now)
            except SealError:
                continue
            session_id = token.session_id
            identity = self._identities.peek(session_id, now) or await self._identities.load(session_id, now)
            if identity is not None:
                return identity
        return None

    async def _identify_if_possible(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Identity | None:
        try:
            return await self._identify(cookie_headers, host_port, now)
        except BrokerError:
            return None
