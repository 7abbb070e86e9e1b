"""Defences of the sign-in: the provider is the configured one, its answer is to our question, and the token is for us."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, returns, skips

signed_token = door(
    "authenticate.provider.signed_token",
    "unit/authenticate/provider/test_id_token.py",
    "unit/authenticate/provider/test_logout_token.py",
    "unit/authenticate/provider/test_signed_token.py",
)
signed_token.without(
    "the signature of the provider's token is checked",
    "TokenKind.check_signature",
    skips("jwt.PyJWS(algorithms=[algorithm]).decode_complete(...)"),
)
signed_token.without("a token of the provider is signed as it offers", "TokenKind.algorithm", never("algorithm not in allowed"))
signed_token.without("critical extensions are refused", "TokenKind.algorithm", never("any((name in header for name in _REFUSED_HEADERS))"))
signed_token.without(
    "another kind of token is none of this kind",
    "TokenKind.algorithm",
    never('not isinstance(kind, str) or kind.lower().removeprefix("application/") not in self.types'),
)
signed_token.without(
    "a token of the provider is for us",
    "TokenKind.audiences",
    never("client_id not in audiences"),
)
signed_token.without("a token of the provider expires", "TokenKind.check_times", never('self.time(payload, "exp") <= now - LEEWAY'))
signed_token.without(
    "a token of the provider is not of the future", "TokenKind.check_times", never('self.time(payload, "iat") > now + LEEWAY')
)

id_token = door("authenticate.provider.id_token", "unit/authenticate/provider/test_id_token.py")
id_token.without("an ID token's signature is asked for", "_authenticate", skips("kind.check_signature(...)"))
id_token.without(
    "an ID token is of our issuer",
    "_authenticate",
    never('payload.get("iss", issuer if kind is USERINFO else None) != issuer'),
)
id_token.without(
    "an ID token names its issuer",
    "_authenticate",
    replaced('payload.get("iss", issuer if kind is USERINFO else None)', 'payload.get("iss", issuer)'),
)
id_token.without("signed userinfo is for this client", "verify_userinfo", skips("USERINFO.audiences(payload, client_id)"))
id_token.without("signed userinfo expires", "verify_userinfo", skips("USERINFO.check_times(...)"))
id_token.without("an ID token was issued to us", "_check_recipient", never("issued_to != expected.client_id"))
id_token.without(
    "an ID token is of this sign-in",
    "_check_nonce",
    never("not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode())"),
)
id_token.without("an ID token's times are asked for", "verify", skips("ID_TOKEN.check_times(payload, now)"))
id_token.without(
    "an access token belongs to its ID token",
    "_check_access_token",
    never("not isinstance(claimed, str) or not hmac.compare_digest(claimed.encode(), expected.encode())"),
)

key_set = door("authenticate.provider.key_set", "unit/authenticate/provider/test_key_set.py", "unit/authenticate/provider/test_id_token.py")
key_set.without("the key is the one that the token names", "fitting_key", always('key.get("kid") == kid'))
key_set.without("a key with an id is not guessed", "fitting_key", never('kid is not None and any(("kid" in key for key in fitting))'))
key_set.without("at_hash is of its algorithm", "ALGORITHMS", replaced("hashlib.sha384", "hashlib.sha256", 3))
key_set.without("a flood of unknown keys costs one fetch", "KeySet.newer_keys", always("not 0 <= now - self._refetched < REFETCH_INTERVAL"))
key_set.without(
    "older keys judge no refreshed token", "KeySet.newer_keys", omits("fetched_after"), "unit/authenticate/session/test_refresh.py"
)
key_set.without("no key is guessed", "fitting_key", replaced("not fitting or any(key != fitting[0] for key in fitting)", "not fitting"))
key_set.without("a key is for its algorithm", "_fits", always('key.get("alg", algorithm) == algorithm'))

discovery = door("authenticate.provider.discovery", "unit/authenticate/provider/test_discovery.py")
discovery.without("the provider is the configured issuer", "parse", never("named != issuer"))
discovery.without(
    "endpoints keep to TLS",
    "is_safe",
    replaced("is_confidential(parts.scheme, host)", 'parts.scheme in ("http", "https")'),
)

strict_json = door("authenticate.provider.strict_json", "unit/authenticate/provider/test_strict_json.py")
strict_json.without("no key twice", "_without_repeats", never("len(members) != len(pairs)"))

connection_errors = door("foundation.connection_errors", "unit/foundation/test_connection_errors.py")
connection_errors.without("a server without TLS is told apart", "_of_tls", never("reason in _NO_TLS"))
connection_errors.without("a cause that its library hides is found", "_causes", lacks("error.__context__"))

provider_http = door("authenticate.provider.http", "unit/authenticate/provider/test_http.py")
provider_http.without("an answer is bounded in size", "_bounded", never("len(body) > limit"))
provider_http.without("the provider's redirects are not followed", "ProviderHttp.__init__", passes(follow_redirects="True"))
provider_http.without(
    "cookies are not kept for the next person", "ProviderHttp.__init__", skips("self._client.cookies.jar.set_policy(...)")
)

client_refusals = door("authenticate.provider.client_refusals", "unit/gateproject/management/test_online_checks.py")
client_refusals.without("a wrong secret is suspected first", "client_refusal", never("_CREDENTIALS.search(text)"))

address_scope = door("authenticate.provider.address_scope", "unit/authenticate/provider/test_address_scope.py")
address_scope.without("an endpoint is in the provider's scope", "AddressScope.check", always("address_kinds(address) <= self._kinds"))
address_scope.without("the scope is the configured origin's", "AddressScope.learn", always("_endpoint(response.request.url) == self._home"))
address_scope.without("addresses are dialled in scope alone", "ScopedTransport.__init__", omits("network_backend"))
address_scope.without("embedded addresses count", "address_kinds", replaced("_embedded(address)", "address"))
discovery.without("only a provider on loopback names http", "is_safe", always('urlsplit(issuer).scheme == "http"'))

oidc = door(
    "authenticate.provider.django_oidc", "unit/authenticate/views/test_callback.py", "unit/authenticate/provider/test_django_oidc.py"
)
oidc.without("a state is used once", "GateCallbackView.get", never("not await self.service.spend_state(state)"))
oidc.without("an answer is of our issuer", "GateCallbackView.get", skips("check_sender(...)"))
oidc.without(
    "an answer is of the provider that was asked",
    "GateCallbackView.client_of_attempt",
    always('self.attempt.get("issuer") == client.provider.issuer'),
)
oidc.without(
    "an answer names its sender where it always does", "GateCallbackView.get", never('discovery.sends_issuer and "iss" not in params')
)
oidc.without("an answer says nothing twice", "single_params", never("len(params) != len(pairs)"))
oidc.without("the code's verifier is sent", "GateBackend.authenticate", lacks('"code_verifier"'))
oidc.without(
    "the code challenge is sent",
    "GateRequestView.get",
    lacks('"code_challenge"'),
    "unit/authenticate/views/test_sign_in.py",
    "unit/authenticate/views/test_callback.py",
)

client = door("authenticate.provider.client", "unit/authenticate/views/test_callback.py", "unit/authenticate/provider/test_django_oidc.py")
client.without("userinfo is about the same person", "ProviderClient.claims", never('userinfo.get("sub") != payload["sub"]'))
client.without("userinfo has no say in the token's claims", "about_user", always("name not in TOKEN_CLAIMS"))

client.without(
    "an address without its mark is not vouched for",
    "ProviderClient.doubted",
    always("not self.provider.tells_email_verified(discovery)"),
    "unit/authenticate/views/test_callback.py",
)
oidc.without(
    "less scope than was asked is seen",
    "GateBackend._check_scope",
    never("missing.needed"),
    "unit/authenticate/views/test_callback.py",
)
oidc.without(
    "what no rule needs locks nobody out",
    "GateBackend._check_scope",
    replaced("if missing.needed: ...", "if missing.needed or missing.other: ..."),
    "unit/authenticate/views/test_callback.py",
)
oidc.without("a missing scope is told", "GateBackend._check_scope", never("missing.other"), "unit/authenticate/views/test_callback.py")
REGISTRY = "unit/authenticate/provider/kinds/test_registry.py"
scopes = door("authenticate.provider.kinds.oidc", REGISTRY)
scopes.without(
    "what was taken out is seen, beside what was given",
    "OIDCProvider.missing_scopes",
    replaced("name not in given_names", "not given_names"),
)
scopes.without("scopes may stand between commas", "OIDCProvider.scope_names", replaced(r're.split(r"[,\s]+", scopes)', "scopes.split()"))
scopes.without("Google's long names are known everywhere", "OIDCProvider.scope_names", replaced("name.removeprefix(_LONG)", "name"))
scopes_of_azure = door("authenticate.provider.kinds.azure", REGISTRY)
scopes_of_azure.without("another's address is not Microsoft Graph's", "_GRAPH", in_text("(https:", "(.*|https:"))
scopes_of_azure.without("the case of a scope says nothing", "AzureProvider.scope_names", replaced("name.lower()", "name"))
scopes_of_azure.without(
    "what .default stands for is not looked for", "AzureProvider.missing_scopes", always('scope.rpartition("/")[2].lower() != ".default"')
)

provider_words = door("authenticate.provider.tokens", "unit/authenticate/views/test_callback.py")
provider_words.without("a provider's words are one printable line", "cleaned", always("letter.isprintable()"))
echoes = door("authenticate.provider.tokens", "unit/authenticate/provider/test_client.py")
echoes.without("secrets are blanked out of a provider's words", "cleaned", skips("words = ..."))
echoes.without(
    "secrets are blanked out of a provider's code",
    "error_text",
    replaced("cleaned(error_code(answer), answer.secrets)", "error_code(answer)"),
)
questions = door("authenticate.provider.http", "unit/authenticate/provider/test_client.py")
questions.without("credentials are secrets of a question", "_secrets", replaced("{credentials}", "set[str]()"))
questions.without("Basic credentials hold a secret", "_secrets", never('scheme == "Basic"'))
questions.without("forms hold secrets", "_secrets", never('headers.get("Content-Type") == FORM'))
provider_words.without("a provider's words are bounded", "cleaned", always("len(line) <= MAX_WORDS"))
answers = door("authenticate.views.answers", "unit/authenticate/views/test_callback.py")
answers.without("a network has no more than its share", "sign_in_slot", replaced("places.take(network)", 'places.take("")'))
pushed_request = door("authenticate.provider.pushed_request", "unit/authenticate/provider/test_pushed_request.py")
pushed_request.without("a request that the provider did not take is not sent", "pushed", never("not is_accepted(answer)"))
authorization_request = door("authenticate.views.authorization_request", "unit/authenticate/provider/test_pushed_request.py")
authorization_request.without("requests are pushed where they can be", "redirect_to_provider", never("is_pushed"))

issuer = door("authenticate.provider.issuer", "unit/authenticate/provider/test_issuer.py", "unit/authenticate/provider/test_id_token.py")
issuer.without("a tenant is a GUID", "issuer_for", always("is_tenant(tenant)"))
issuers = door("config.issuers", "unit/config/test_issuers.py")
issuers.without("a tenant is of the configured host", "is_issuer", always("named.startswith(before)"))
issuers.without("an open tenant is a GUID", "is_issuer", always("is_tenant(named[len(before) : len(named) - len(after)])"))
issuer.without("the key of one tenant signs for no other", "signs_for", always("owner is None"))

azure = door("authenticate.provider.kinds.azure", "unit/authenticate/provider/kinds/test_azure.py")
azure.without("a stranger's tenant does not vouch for addresses", "AzureProvider.user", never("TENANT in self.issuer"))

github = door("authenticate.provider.kinds.github", "unit/authenticate/provider/kinds/test_github.py")
github.without("only a verified address of GitHub counts", "_primary_email", always('entry.get("verified") is True'))

sign_in_view = door("authenticate.views.sign_in", "unit/authenticate/views/test_sign_in.py")
sign_in_view.without(
    "sign-in leads to hosts of ours with an attempt only",
    "_begin",
    always("service.targets.is_own(target)"),
)

sessions = door("authenticate.session.sessions", "unit/authenticate/session/test_sessions.py")
sessions.without(
    "what has expired is no session at the sign-in",
    "Sessions.find.live",
    always("session is not None and session.expires > now"),
)

sessions.without("an account has a bounded number of sessions", "Sessions.end_oldest", always("len(indexed) <= MAX_SESSIONS"))
sessions.without(
    "a session that is being written stays in the index", "Sessions.end_oldest", replaced("written < now - WRITE_TIME", "True")
)

claim_limits = door("authenticate.provider.claim_limits", "unit/authenticate/provider/test_claim_limits.py")
claim_limits.without("claims have a bounded number of members", "excess_of", never("members > MAX_MEMBERS"))
claim_limits.without("claims have a bounded depth", "excess_of", never("level"))
claim_limits.without("claims have a bounded size", "excess_of", never("size > MAX_BYTES"))
client.without(
    "claims are bounded on arrival",
    "ProviderClient.bounded",
    replaced('check_claims(claims, f"the identity provider {self.provider.id}")', "claims"),
    "unit/authenticate/provider/test_claim_limits.py",
    "unit/authenticate/test_bearer_tokens.py",
)
bearer_claims = door("authenticate.bearer_tokens", "unit/authenticate/test_bearer_tokens.py")
bearer_claims.without(
    "claims of another issuer are bounded",
    "BearerTokens._claims",
    replaced('check_claims(claims, f"the issuer {trust.issuer}")', "claims"),
)
renewal = door("authenticate.session.refresh", "unit/authenticate/provider/test_claim_limits.py")
renewal.without(
    "whose claims grow keeps no old ones",
    "SessionRefresh.renew",
    replaced("(AnotherPerson, ClaimsTooLarge, WrongToken)", "(AnotherPerson, WrongToken)"),
)

provider = door(
    "authenticate.provider.kinds.base", "unit/authenticate/provider/kinds/test_oidc.py", "unit/authenticate/views/test_callback.py"
)
provider.without("an address that either does not vouch for is unverified", "merged", lacks("**doubted"))
provider.without("an ID token vouches for its own address", "_replaces_address", returns("False"))

DOORS = (
    provider,
    signed_token,
    id_token,
    key_set,
    discovery,
    strict_json,
    connection_errors,
    pushed_request,
    answers,
    provider_words,
    echoes,
    questions,
    authorization_request,
    provider_http,
    address_scope,
    client_refusals,
    oidc,
    client,
    issuer,
    issuers,
    scopes,
    scopes_of_azure,
    azure,
    github,
    sign_in_view,
    sessions,
    claim_limits,
    bearer_claims,
    renewal,
)
