"""Defences of tokens: who agreed, where they go, at which host they count, and what passes for one."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, never, omits, passes, replaced

programs = door("proxy.sign_in.redirect_uris", "unit/proxy/sign_in/test_redirect_uris.py")
programs.without("a loopback address is one", "_is_loopback", replaced("address.is_loopback", "address.is_private"))

program_views = door("proxy.views.programmatic_login", "unit/proxy/views/test_programmatic_login.py")
program_views.without(
    "an ended session gives no token",
    "deliver_token",
    replaced(
        'return _deny(request, Message("The session that this sign-in is for has ended."))',
        'session = type("Ended", (), {"id": handoff.session_id, "user_id": "", "expires_at": now + 60})',
    ),
)
program_views.without("one redirect URI is one", "login", replaced("len(uris) == 1", "uris"))
program_views.without(
    "where a token goes is judged before it goes",
    "deliver_token",
    replaced("gate.proxy.redirect_uris.validate(handoff.redirect_uri)", "handoff.redirect_uri"),
)

program = door("authenticate.views.view_helpers", "unit/authenticate/views/test_programmatic_consent.py")
program.without("an answer is the signed-in person's", "has_valid_csrf_token", omits("bound_to"))

sealed = door("foundation.crypto.handoff", "unit/foundation/crypto/test_programmatic.py")
sealed.without("a handoff to a program is none to a browser", "HandoffTokens.__init__", replaced("purpose", "TO_BROWSER"))
carriers = door("authorize.identity.request_credentials", "unit/authorize/identity/test_request_credentials.py")
carriers.without("two headers carry nothing", "parse_authorization", replaced("len(values) != 1", "not values"))
carriers.without("two tokens in a query are none", "parse_query_token", replaced("len(values) == 1", "values"))
carriers.without("a browser is known by its name", "_is_browser", never("value.strip().lower().startswith(_BROWSER_USER_AGENT_PREFIX)"))

service = door("authorize.service", "unit/authorize/test_service.py")
service.without(
    "who is signed in stays who they are",
    "AuthorizeService._identify",
    replaced(
        "for audience in audiences: ...",
        """
named = await self._identify_by_token(request, now, route)
if named is not None and not isinstance(named, InvalidToken):
    return named, ""
for audience in audiences: ...
""",
    ),
)

resources = door(
    "authorize.protected_resources", "unit/authorize/test_protected_resources.py", "unit/authorize/identity/test_agent_token_loader.py"
)
resources.without(
    "the client decides between a host and its MCP server",
    "ProtectedResource.accepts",
    replaced("client_id == COMMAND_LINE_ID", "self.kind is not ResourceKind.MCP"),
)
resources.without("a tunnel is no page of its host", "requested_kind", never("request.is_tunnel"))
resources.without("an MCP server is not its host", "requested_kind", never("is_mcp_endpoint(route, request.path)"))

agent_tokens = door("authorize.identity.agent_token_loader", "unit/authorize/identity/test_agent_token_loader.py")
agent_tokens.without("a verified token of a host is for one host", "_VerifiedToken.is_for", never("self.host_port != request.host_port"))
agent_tokens.without(
    "a verified token of a host is for no MCP server", "_VerifiedToken.is_for", never("self.kind is not requested_kind(route, request)")
)
agent_tokens.without(
    "a stream is at its own resource",
    "AgentTokenLoader.identify_stream",
    never("not _is_for(session.agent, requested_resource(route, request))"),
)

authorization_server = door("authenticate.oauth.authorization_server", "unit/authenticate/oauth/test_command_line_client.py")
authorization_server.without("another client has no host", "GateAuthorizationServer.resource_at", passes(of_command_line="True"))
authorization_server.without(
    "the client of gate is the built-in one",
    "GateAuthorizationServer.resource_at",
    replaced("self.client.is_command_line", 'self.client.client_id == "gate"'),
)

streams = door("proxy.planes.stream_tracking", "unit/proxy/planes/test_embedded.py")
streams.without(
    "the stream of an MCP client ends with its token",
    "open_stream",
    replaced("identity.client_id == COMMAND_LINE_ID", "identity.client_id"),
)

sign_in = door("proxy.sign_in.sign_in_urls", "unit/proxy/sign_in/test_sign_in_urls.py")
sign_in.without(
    "no token is part of where to return",
    "requested_url",
    replaced('strip_token(request.query.encode("latin-1")).decode("latin-1")', "request.query"),
)

account_token = door("foundation.crypto.service_account_token", "unit/foundation/crypto/test_service_account_token.py")
account_token.without("a token is whole", "parse_name", replaced("_TOKEN.fullmatch", "_TOKEN.match"))

account_identity = door("authorize.identity.service_account_loader", "unit/authorize/identity/test_service_account_loader.py")
account_identity.without("an attestation is of the last hour", "build_account_identity", passes(expires_at="float(account.expires_at)"))

accounts = door("databroker.service_account_store", "unit/databroker/test_service_account_store.py")
accounts.without("a name is taken once", "ServiceAccounts.create", omits("only_if_version"))

identity = door("authorize.policy.identity", "unit/authorize/identity/test_service_account_loader.py", "contract/test_user_entries.py")
identity.without(
    "only people of the configured provider have a subject",
    "Identity.__post_init__",
    replaced("self.provider not in RESERVED_IDS", "bool(self.provider)"),
)

bearer_tokens = door("authenticate.bearer_token_verification", "unit/authenticate/test_bearer_token_verification.py")
bearer_tokens.without(
    "a bearer token names a subject", "_check_claims", replaced('kind.string_claim(payload, "sub")', 'payload.setdefault("sub", "")')
)
bearer_tokens.without(
    "an ID token is no access token", "_check_claims", replaced('has_nonce or declared_type == "ID" or not has_scope', "not has_scope")
)
bearer_tokens.without(
    "an address of another issuer is a claim",
    "BearerTokens._build_session",
    replaced("UserRecord(user_id, '', ..., '', claims)", "UserRecord(user_id, str(claims.get('email', '')), ..., '', claims)"),
)
bearer_tokens.without(
    "an address counts where the issuer says so", "BearerTokens._build_session", replaced("email_verified(claims) is True", "True")
)
bearer_tokens.without(
    "a slow provider holds up no other's tokens",
    "TokenPolicy.queue",
    replaced("(self.provider, self.issuer, self.uses_userinfo)", "self.uses_userinfo"),
)
bearer_tokens.without(
    "made-up tokens for userinfo hold up none that need keys",
    "TokenPolicy.queue",
    replaced("(self.provider, self.issuer, self.uses_userinfo)", "(self.provider, self.issuer)"),
)
bearer_tokens.without("tokens that wait for keys are bounded", "_IssuerKeys.verify_with_keys", omits("slot"))
bearer_tokens.without("tokens that wait for an issuer's discovery are bounded", "_IssuerKeys._jwks_uri", omits("slot"))
bearer_tokens.without("tokens that wait for userinfo are bounded", "BearerTokens._claims", replaced("slot()", "nullcontext()"))
bearer_tokens.without(
    "tokens that wait for a provider's discovery are bounded",
    "BearerTokens._claims",
    replaced("client.discovery(slot=slot)", "client.discovery()"),
)
bearer_tokens.without(
    "tokens that wait for a provider's keys are bounded",
    "BearerTokens._claims",
    replaced(
        "partial(verify_with_keys, client.key_set, discovery.jwks_uri, slot=slot)",
        "partial(verify_with_keys, client.key_set, discovery.jwks_uri)",
    ),
)
bearer_tokens.without("tokens that wait are bounded in all", "BearerTokens.__init__", replaced("math.ceil(...)", "1"))
bearer_tokens.without("what tokens claim is bounded in bytes", "BearerTokens._verify_once", replaced("estimate_size(verdict)", "1"))
bearer_tokens.without(
    "a refusal is remembered", "BearerTokens._verify_once", replaced("self._clock() + NEGATIVE_CACHE_SECONDS", "self._clock()")
)
bearer_tokens.without(
    "verdicts are bounded",
    "BearerTokens.__init__",
    replaced(
        "self._accepted: ... = BoundedCache(MAX_CACHED, MAX_CACHED_BYTES)", "self._accepted: ... = BoundedCache(10 ** 9, MAX_CACHED_BYTES)"
    ),
)
bearer_tokens.without(
    "a route takes its own kind", "BearerTokens.verify", replaced("(policy, ...)", "(next(iter(self._policies.values())), ...)")
)

newer_keys = door("authenticate.provider.tokens.signed_token", "unit/authenticate/test_bearer_token_verification.py")
newer_keys.without(
    "tokens that wait for newer keys are bounded",
    "verify_with_keys",
    replaced(
        "key_set.refetched_keys(jwks_uri, fetched_after=fetched_after, slot=slot)",
        "key_set.refetched_keys(jwks_uri, fetched_after=fetched_after)",
    ),
)
key_set = door("authenticate.provider.tokens.key_set", "unit/authenticate/test_bearer_token_verification.py")
key_set.without("tokens that wait for another fetch of newer keys are bounded", "KeySet.refetched_keys", omits("slot"))

userinfo = door("authenticate.provider.kinds.oidc_provider", "unit/authenticate/test_bearer_token_verification.py")
userinfo.without(
    "a 403 alone says nothing of a token", "OIDCProvider.userinfo", replaced('error == "insufficient_scope"', "answer.status == 403")
)

bearer_headers = door(
    "proxy.rewriting.request_headers", "unit/proxy/rewriting/test_request_headers.py::test_withheld_credentials_are_dropped"
)
bearer_headers.without(
    "an upstream sees no bearer's token",
    "_WITHHELD",
    replaced("(DROP, AUTHORIZATION)", "(DROP,)"),
)
bearer_headers.without("no credential goes with a preflight", "_WITHHELD", replaced("(DROP, AUTHORIZATION, COOKIE)", "(DROP,)"))
bearer_headers.without(
    "another proxy's upstream gets what gate's would",
    "RequestHeaderRules.remaining_credentials",
    replaced("_WITHHELD[withheld]", "(DROP,)"),
)

MATRIX = "contract/test_verdict_matrix.py"
route_forwarding = door("proxy.route_forwarding", MATRIX)
route_forwarding.without(
    "what is sent on is cut as it was judged", "RouteForwarding.build_request", replaced("verdict.withheld", "type(verdict.withheld).GATE")
)
route_forwarding.without(
    "a token for gate is none for an upstream that changes protocols",
    "RouteForwarding.build_request",
    replaced(
        "verdict.upgrade.for_upstream(headers)",
        "verdict.upgrade.for_upstream([*headers, *(pair for pair in scope['headers'] if pair[0] == b'authorization')])",
    ),
)

ALIKE = "contract/test_refusals_alike.py"
challenges = door("foundation.auth_challenges", "unit/foundation/test_auth_challenges.py")
challenges.without("every 401 says how to prove who one is", "_REQUIRED_HEADERS", lacks("401"))
challenges.without("every 503 says when to come back", "_REQUIRED_HEADERS", lacks("503"))
own_answers = door("proxy.responses.renderer", "unit/proxy/responses/test_renderer.py")
own_answers.without("a response of gate has the headers of its status", "send_response", lacks("*missing_headers(...)"))
own_answers.without("an answer to gRPC says it, too", "send_grpc_error", lacks("*missing_headers(...)"))
own_pages = door("gateproject.middleware", "unit/gateproject/test_middleware.py")
own_pages.without(
    "a page of gate has the headers of its status", "ResponseHeadersMiddleware.process_response", replaced("response.status_code", "200")
)
verdict_builder = door("proxy.verdict_builder", ALIKE)
verdict_builder.without(
    "other proxies get the errors of gate's clients",
    "deny_for_error",
    always("isinstance(error, BadRequest)"),
)
recorder = door("proxy.observe.request_recorder", ALIKE)
recorder.without("a refused token is explained in the line of its request", "RequestContext.log_fields", never("authorization.token_error"))

receiver = door("gateproject.tunnel.browser_sign_in", "unit/gateproject/tunnel/test_browser_sign_in.py")
receiver.without("the start URL works once", "_LoopbackReceiver._start", never("self._is_started"))
receiver.without(
    "only the response with the state counts",
    "_LoopbackReceiver._respond",
    replaced('_is_equal(response.get("state", ""), self.state)', "True"),
)
receiver.without("a response is of the server that was asked", "_LoopbackReceiver._complete", never('response.get("iss") != self._issuer'))
receiver.without("a second use is noticed after a fast sign-in", "_LoopbackReceiver.wait", replaced("MIN_SIGN_IN_SECONDS", "0.0"))

discovery = door("gateproject.tunnel.oauth_client", "unit/gateproject/tunnel/test_oauth_client.py")
discovery.without("metadata is of the resource that was asked", "discover", never('document.get("resource") != str(resource)'))
discovery.without("metadata is of the server that was asked", "_read_metadata", never('metadata.get("issuer") != issuer'))

refreshes = door("gateproject.tunnel.access_tokens", "unit/gateproject/tunnel/test_access_tokens.py")
refreshes.without("a refresh token goes to its server only", "AccessTokens._refresh", replaced("server.issuer == stored.issuer", "True"))
refreshes.without(
    "a refresh reads again under the lock", "AccessTokens.find", replaced("stored is not None and not _is_valid(stored)", "True")
)

token_files = door("gateproject.tunnel.token_file", "unit/gateproject/tunnel/test_token_file.py")
token_files.without("one command at a time", "TokenFile._acquire", replaced("fcntl.LOCK_EX", "fcntl.LOCK_SH"))
