"""Authorize service: decide requests and build their identity headers."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from authorize.accessible_routes import AccessibleRoute, EntryPoints
from authorize.approval_policy import requestable_tool
from authorize.authorizer import Attestation, AuthorizationResult, Authorizer, ShadowOutcome
from authorize.decision_log.shadow_policy import ShadowPolicy
from authorize.identity import request_credentials
from authorize.identity.account_token_loader import AccountTokenLoader
from authorize.identity.agent_token_loader import AgentTokenLoader
from authorize.identity.client_certificates import ClientCertificates
from authorize.identity.identity_loader import IdentityLoader
from authorize.identity.service_account_loader import ServiceAccountLoader
from authorize.policy.compiled_route import invalid_user_entries
from authorize.policy.criterion import EvaluationContext
from authorize.policy.decision import NO_ROUTE, Decision, Outcome, evaluate_route
from authorize.policy.identity import Identity
from authorize.policy.language.criterion_registry import build_criterion
from authorize.policy.language.grant_criteria import grant_period
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.policy.missing_scopes import missing_scopes
from authorize.policy.policy_request import PolicyRequest
from authorize.upstream.identity_headers import Headers, IdentityHeaders
from authorize.upstream.upstream_credentials import UpstreamCredentials
from config.options import Options
from config.routes.policy.policy_language import Comparison
from config.routes.route import Route
from databroker.broker_client import BrokerClient
from databroker.records import SessionRecord, UserRecord
from databroker.replica import Replica
from databroker.session_reader import SessionReader
from foundation.auth_challenges import InvalidToken
from foundation.crypto.programmatic import ProgrammaticTokens
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BrokerError, ConfigError, ProviderError, SealError

# Administrator rules check only the identity.
ADMIN_REQUEST = PolicyRequest(method="GET", host="", port=None, path="/")


class VerifiedBearer(Protocol):
    """User of a valid token.  The session has no record and ends with the token."""

    @property
    def session(self) -> SessionRecord: ...

    @property
    def user(self) -> UserRecord: ...


class BearerTokenVerifier(Protocol):
    async def verify(self, route_id: str, token: str, client_address: str = "") -> VerifiedBearer | InvalidToken:
        """Return the user of a token, the same object while the token is cached.  InvalidToken if the route does not accept it.

        `client_address` is "" if in doubt.  Raises ProviderError if the token cannot be verified.
        """
        ...


class AuthorizeService(Authorizer):
    """Authorizer of this process, immutable: a reload builds another one on the same replica.

    Raises ConfigError if the routes are invalid.
    """

    def __init__(
        self,
        options: Options,
        replica: Replica,
        signing_key: SigningKey,
        clock: Callable[[], float] = time.time,
        previous: Authorizer | None = None,
        bearers: BearerTokenVerifier | None = None,
        broker: BrokerClient | None = None,
    ):
        super().__init__(options, previous)
        self._entry_points = EntryPoints(self.routes, self.default_ports)
        self._certificates = ClientCertificates()
        self._shadow = ShadowPolicy(options)
        self.has_shadow = self._shadow.has_shadow_rules
        self.identity_headers = IdentityHeaders(options, signing_key)
        self.identity_header_names = self.identity_headers.names
        self.credentials = UpstreamCredentials(options, self.routes, self.identity_headers.released_groups, clock, broker, replica)
        self._cookies = SessionCookies(options)
        self._programmatic_tokens = ProgrammaticTokens(options)
        self._service_accounts = ServiceAccountLoader(replica)
        self._identities = IdentityLoader.from_options(options, replica)
        self._account_tokens = AccountTokenLoader(self._service_accounts, replica)
        self._agent_tokens = AgentTokenLoader(self._identities, SessionReader(options), replica, broker)
        self._bearers = bearers
        self._clock = clock
        if problems := list(invalid_user_entries(options.admin_allowed_users, "admin_allowed_users")):
            raise ConfigError(problems)
        self._admin_rules = tuple(
            build_criterion(Comparison(setting, name, "", "in", False, getattr(options, setting)))
            for setting, name in (("admin_allowed_users", "user"), ("admin_allowed_groups", "groups"))
        )

    async def check(self, request: PolicyRequest, cookie_headers: Iterable[bytes], request_id: str = "") -> AuthorizationResult:
        """Return the decision on a request.

        Raises BadRequest if the path is ambiguous, and BrokerError if the data broker is needed and unavailable.
        """
        route = self.routes.match(request)
        if route is None:
            return AuthorizationResult(NO_ROUTE, None)
        now = self._clock()
        if route.client_ca is not None:
            request = self._certificates.with_verification(request, route.client_ca, now)
        # Evaluate as anonymous first, because public routes must work while the data broker is down.
        decision = evaluate_route(request, None, route, now) if not route.skips_anonymous_evaluation else None
        identity, token_error = None, ""
        if decision is None:
            identity, token_error = await self._identify(request, cookie_headers, now, route.route)
            decision = evaluate_route(request, identity, route, now)
        elif decision.outcome is Outcome.SIGN_IN:
            identity, token_error = await self._identify(request, cookie_headers, now, route.route)
            decision = evaluate_route(request, identity, route, now) if identity is not None else decision
        elif decision.outcome is Outcome.FORBIDDEN and route.route.mcp is not None:
            # No rule needs the user, but the error for an MCP client names the user and the page for access requests.
            identity = await self._identify_if_possible(request, cookie_headers, now, route.route)
        elif (self.identity_headers.sends_identity(route) or self.credentials.needs_identity(route)) and not decision.is_preflight:
            identity = await self._identify_if_possible(request, cookie_headers, now, route.route)
        is_forwarded = decision.is_allowed and not decision.is_preflight
        headers = self.identity_headers.headers_for(request, route, identity, now, request_id) if is_forwarded else ()
        challenge = (
            request_credentials.challenge(request, route.route.bearer_token is not None) if decision.outcome is Outcome.SIGN_IN else ""
        )
        valid_until = _decision_expiry(decision, identity) if is_forwarded and identity is not None else math.inf
        needed = missing_scopes(decision), requestable_tool(decision)
        return AuthorizationResult(decision, identity, headers, challenge, token_error, valid_until, *needed)

    async def evaluate_shadow(
        self, request: PolicyRequest, authorization: AuthorizationResult, cookie_headers: Iterable[bytes]
    ) -> ShadowOutcome | None:
        """Return the outcome if all shadow rules were enforced.  It must not affect the response."""
        now = self._clock()

        async def identify() -> Identity | None:
            route = authorization.decision.compiled_route
            return await self._identify_if_possible(request, cookie_headers, now, route.route if route is not None else None)

        return await self._shadow.evaluate(request, authorization, now, identify, self._certificates)

    async def load_session_identity(self, session_id: str) -> Identity | None:
        return await self._identities.load(session_id, self._clock())

    # enforcement-point: Authorization: MCP calls that may be listed
    async def allowed_calls(
        self, request: PolicyRequest, authorization: AuthorizationResult, cookie_headers: Iterable[bytes], calls: Sequence[McpMessage]
    ) -> Sequence[bool]:
        route, context, now = authorization.decision.compiled_route, authorization.decision.context, self._clock()
        if route is None or context is None or not authorization.decision.is_allowed or authorization.decision.is_preflight:
            return [False] * len(calls)
        identity = authorization.identity
        if identity is None:  # a call may need the user of a request that did not
            identity = await self._identify_if_possible(request, cookie_headers, now, route.route)
        # The context's request has the verification result of its client certificate.
        decisions = (evaluate_route(context.request.with_message(call), identity, route, now) for call in calls)
        # A tool that may be requested stays in the list, because the denial of its call leads to the request.
        return [decision.is_allowed or bool(requestable_tool(decision)) for decision in decisions]

    async def credentials_for(
        self, authorization: AuthorizationResult, request: PolicyRequest, cookie_headers: Iterable[bytes], rejected: str = ""
    ) -> Headers:
        route = authorization.decision.compiled_route
        if route is None or not authorization.decision.is_allowed or authorization.decision.is_preflight:
            return ()
        return await self.credentials.headers_for(route, authorization.identity, rejected)

    async def attest(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> Attestation:
        identity, _ = await self._identify(request, cookie_headers, self._clock())
        if identity is None or not self.can_access_host(request, identity):
            return Attestation(identity)
        return Attestation(identity, self.identity_headers.assertion(identity, request.host_port))

    async def accessible_routes(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> tuple[AccessibleRoute, ...]:
        now = self._clock()
        identity = await self._identify_by_cookie(cookie_headers, request.host_port, now)
        if identity is None:
            return ()

        def decide(entry: PolicyRequest, client_id: str = "") -> Decision:
            if (route := self.routes.match(entry)) is None:
                return NO_ROUTE
            scopes = frozenset(route.route.mcp.scopes) if client_id and route.route.mcp is not None else frozenset[str]()
            caller = replace(identity, client_id=client_id, scopes=scopes) if client_id else identity
            entry = self._certificates.with_verification(entry, route.client_ca, now)
            # As in `check`: a decision that needs no identity does not use it.
            before = evaluate_route(entry, None, route, now) if not route.skips_anonymous_evaluation else None
            return before if before is not None and before.outcome is not Outcome.SIGN_IN else evaluate_route(entry, caller, route, now)

        return await self._entry_points.find_accessible(request, decide)

    def can_access_host(self, request: PolicyRequest, identity: Identity) -> bool:
        """Return whether any route of this host allows the user.  If none does, no identity is attested for the host."""
        now, request = self._clock(), request.with_message(NO_MESSAGE)
        routes = self.routes.routes_for(request.host, request.port)
        return any(
            evaluate_route(self._certificates.with_verification(request, route.client_ca, now), identity, route, now).is_allowed
            for route in routes
        )

    def may_administer(self, identity: Identity) -> bool:
        """Return whether the identity matches `admin_allowed_users` or `admin_allowed_groups`, by the same criteria as routes."""
        return any(rule.evaluate(EvaluationContext(ADMIN_REQUEST, identity, 0.0)).holds for rule in self._admin_rules)

    async def identify(self, cookie_headers: Iterable[bytes], host_port: str) -> Identity | None:
        """Return the identity of the browser session at this host, or None.  Raises BrokerError."""
        return await self._identify_by_cookie(cookie_headers, host_port, self._clock())

    async def _identify(
        self, request: PolicyRequest, cookie_headers: Iterable[bytes], now: float, route: Route | None = None
    ) -> tuple[Identity | None, str]:
        """Return (identity, reason why a token was rejected).

        The browser session takes precedence, so that no link or script can make a signed-in user act as another.
        """
        if request.stream_session_id:
            return _as_pair(await self._agent_tokens.identify_stream(request.stream_session_id, request, route, now))
        cookie_headers = tuple(cookie_headers)
        audiences = () if not cookie_headers else self.audiences(request) if request.is_tunnel else (request.host_port,)
        for audience in audiences:
            if (identity := await self._identify_by_cookie(cookie_headers, audience, now)) is not None:
                return identity, ""
        return _as_pair(await self._identify_by_token(request, now, route))

    async def _identify_by_cookie(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Identity | None:
        return await self._cookies.find_only_session(cookie_headers, host_port, now, self._identities.find_browser_identity)

    async def _identify_by_token(self, request: PolicyRequest, now: float, route: Route | None) -> Identity | InvalidToken | None:
        """Return the identity of a service account or client application.

        The Authorization header takes precedence over a token in the query.
        """
        scheme, value = request_credentials.parse_authorization(request)
        if request_credentials.is_agent_token(scheme, value):
            tokens = self._account_tokens if request_credentials.is_account_token(value) else self._agent_tokens
            return await tokens.identify(value, request, route, now)
        if request_credentials.is_service_account_token(scheme, value):
            return await self._service_accounts.identify(value, now)
        if scheme == "bearer" and route is not None and route.bearer_token is not None:
            return await self._identify_by_bearer(route, value, request.source_ip, now)
        if programmatic_token := value if scheme == "gate" else request_credentials.parse_query_token(request):
            return await self._identify_by_programmatic_token(request, programmatic_token, now)
        return (
            None
            if value or not request_credentials.has_malformed_authorization(request)
            else InvalidToken("the Authorization header is ambiguous")
        )

    async def _identify_by_programmatic_token(self, request: PolicyRequest, token: str, now: float) -> Identity | InvalidToken:
        reason = ""
        for audience in self.audiences(request):
            try:
                opened = self._programmatic_tokens.open(token, audience, now)
            except SealError as error:
                reason = reason or f"program token: {error}"
                continue
            return await self._identities.find_browser_identity(opened.session_id, now) or InvalidToken(
                "program token: its session has ended"
            )
        return InvalidToken(reason)

    async def _identify_by_bearer(self, route: Route, token: str, client_ip: str, now: float) -> Identity | InvalidToken:
        if self._bearers is None:
            raise BrokerError("this process can't verify tokens of the provider")
        try:
            bearer = await self._bearers.verify(route.id, token, client_ip)
        except ProviderError as error:
            raise BrokerError(f"a token can't be verified: {error}") from error
        if isinstance(bearer, InvalidToken):
            return bearer
        if now >= bearer.session.expires_at:
            return InvalidToken("bearer token: it has expired")
        return await self._identities.for_bearer(bearer.session, bearer.user)

    async def _identify_if_possible(
        self, request: PolicyRequest, cookie_headers: Iterable[bytes], now: float, route: Route | None
    ) -> Identity | None:
        try:
            return (await self._identify(request, cookie_headers, now, route))[0]
        except BrokerError:
            return None


def _as_pair(found: Identity | InvalidToken | None) -> tuple[Identity | None, str]:
    """Return (identity, reason why a token was rejected)."""
    return (None, found.reason) if isinstance(found, InvalidToken) else (found, "")


def _decision_expiry(decision: Decision, identity: Identity) -> float:
    """Return the time until which the decision holds, as far as it is known.

    This is the expiry of the session or token, or of temporary access if the request is allowed by nothing else.  The expiry of a service
    account identity does not count, because it is rebuilt each hour.
    """
    expires_at = identity.expires_at if identity.is_provider_user or identity.has_oauth_token else math.inf
    route, context = decision.compiled_route, decision.context
    if not identity.grants or route is None or context is None:
        return expires_at
    if (period := grant_period(EvaluationContext(context.request, identity, context.now, route.route))) is None:
        return expires_at
    return (
        expires_at if evaluate_route(context.request, identity, route, period.expires_at).is_allowed else min(expires_at, period.expires_at)
    )
