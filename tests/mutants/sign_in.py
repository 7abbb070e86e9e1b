"""Defences of the sign-in: the provider is the configured one, its answer is to our question, and the token is for us."""

from tests.mutants.mutant import door

signed_token = door(
    "authenticate/provider/signed_token.py",
    "unit/authenticate/provider/test_id_token.py",
    "unit/authenticate/provider/test_logout_token.py",
    "unit/authenticate/provider/test_signed_token.py",
)
signed_token.without(
    "the signature of the provider's token is checked",
    "jwt.PyJWS(algorithms=[algorithm]).decode_complete(token, key, algorithms=[algorithm])",
    "pass",
)
signed_token.without("a token of the provider is signed as it offers", " or algorithm not in allowed:", ":")
signed_token.without("critical extensions are refused", "if any(name in header for name in _REFUSED_HEADERS):", "if False:")
signed_token.without(
    "another kind of token is none of this kind",
    'if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in self.types:',
    "if False:",
)
signed_token.without(
    "a token of the provider is for us",
    "if not isinstance(audiences, list) or client_id not in audiences:",
    "if not isinstance(audiences, list):",
)
signed_token.without("a token of the provider expires", 'if self.time(payload, "exp") <= now - LEEWAY:', "if False:")
signed_token.without("a token of the provider is not of the future", 'if self.time(payload, "iat") > now + LEEWAY or', "if")

id_token = door("authenticate/provider/id_token.py", "unit/authenticate/provider/test_id_token.py")
id_token.without("an ID token's signature is asked for", '    ID_TOKEN.check_signature(token, usable, algorithm, header.get("kid"))\n', "")
id_token.without("an ID token is of our issuer", 'if payload.get("iss") != issuer:', "if False:")
id_token.without("an ID token was issued to us", "if issued_to != expected.client_id:", "if False:")
id_token.without(
    "an ID token is of this sign-in",
    "if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):",
    "if False:",
)
id_token.without("an ID token's times are asked for", "    ID_TOKEN.check_times(payload, now)\n", "")
id_token.without(
    "an access token belongs to its ID token",
    "if not isinstance(claimed, str) or not hmac.compare_digest(claimed.encode(), expected.encode()):",
    "if False:",
)

key_set = door(
    "authenticate/provider/key_set.py", "unit/authenticate/provider/test_key_set.py", "unit/authenticate/provider/test_id_token.py"
)
key_set.without("the key is the one that the token names", '(kid is None or key.get("kid") == kid)', "True")
key_set.without("a flood of unknown keys costs one fetch", "if not 0 <= now - self._refetched < REFETCH_INTERVAL:", "if True:")
key_set.without("older keys judge no refreshed token", ", fetched_after=than)", ")", "unit/authenticate/session/test_refresh.py")
key_set.without("no key is guessed", "if len(fitting) != 1:", "if not fitting:")
key_set.without("a key is for its algorithm", 'and key.get("alg", algorithm) == algorithm', "")

discovery = door("authenticate/provider/discovery.py", "unit/authenticate/provider/test_discovery.py")
discovery.without("the provider is the configured issuer", "if named != issuer:", "if False:")
discovery.without(
    "endpoints keep to TLS",
    "return is_confidential(parts.scheme, host)",
    'return parts.scheme in ("http", "https")',
)

strict_json = door("authenticate/provider/strict_json.py", "unit/authenticate/provider/test_strict_json.py")
strict_json.without("no key twice", "if len(members) != len(pairs):", "if False:")

connection_errors = door("foundation/connection_errors.py", "unit/foundation/test_connection_errors.py")
connection_errors.without("a server without TLS is told apart", "if reason in _NO_TLS:", "if False:")
connection_errors.without("a cause that its library hides is found", "error.__cause__, error.__context__]", "error.__cause__]")

provider_http = door("authenticate/provider/http.py", "unit/authenticate/provider/test_http.py")
provider_http.without("an answer is bounded in size", "if len(body) > limit:", "if False:")
provider_http.without("the provider's redirects are not followed", "follow_redirects=False", "follow_redirects=True")
provider_http.without(
    "cookies are not kept for the next person", "self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))", "pass"
)

oidc = door("authenticate/provider/oidc.py", "unit/authenticate/views/test_callback.py", "unit/authenticate/provider/test_oidc.py")
oidc.without("a state is used once", "if not await self.service.spend_state(state):", "if False:")
oidc.without("an answer is of our issuer", "        check_sender(params, client.provider.issuer)\n", "")
oidc.without("an answer names its sender where it always does", 'if discovery.sends_issuer and "iss" not in params:', "if False:")
oidc.without("an answer says nothing twice", "if len(params) != len(pairs):", "if False:")
oidc.without("the code's verifier is sent", '                "code_verifier": code_verifier,\n', "")
oidc.without(
    "the code challenge is sent",
    '            "code_challenge": generate_code_challenge(code_verifier, "S256"),\n',
    "",
    "unit/authenticate/views/test_sign_in.py",
    "unit/authenticate/views/test_callback.py",
)

client = door("authenticate/provider/client.py", "unit/authenticate/views/test_callback.py", "unit/authenticate/provider/test_oidc.py")
client.without("userinfo is about the same person", 'if userinfo.get("sub") != payload["sub"]:', "if False:")
client.without("userinfo has no say in the token's claims", " if name not in TOKEN_CLAIMS}", "}")

client.without(
    "an address without its mark is not vouched for",
    "or not self.provider.tells_email_verified(discovery):",
    "or True:",
    "unit/authenticate/views/test_callback.py",
)
oidc.without(
    "less scope than was asked is seen",
    "        if missing.needed:\n",
    "        if False:\n",
    "unit/authenticate/views/test_callback.py",
)
oidc.without(
    "what no rule needs locks nobody out",
    "        if missing.needed:\n",
    "        if missing.needed or missing.other:\n",
    "unit/authenticate/views/test_callback.py",
)
oidc.without("a missing scope is told", "        if missing.other:\n", "        if False:\n", "unit/authenticate/views/test_callback.py")
REGISTRY = "unit/authenticate/providers/test_registry.py"
scopes = door("authenticate/providers/oidc.py", REGISTRY)
scopes.without("what was taken out is seen, beside what was given", "and name not in given_names)", "and not given_names)")
scopes.without("scopes may stand between commas", 're.split(r"[,\\s]+", scopes)', "scopes.split()")
scopes.without("Google's long names are known everywhere", "name.removeprefix(_LONG)", "name")
scopes_of_azure = door("authenticate/providers/azure.py", REGISTRY)
scopes_of_azure.without("another's address is not Microsoft Graph's", 'r"^(https://(dod-)', 'r"^(.*|https://(dod-)')
scopes_of_azure.without("the case of a scope says nothing", "name.lower()", "name")
scopes_of_azure.without("what .default stands for is not looked for", 'if scope.rpartition("/")[2].lower() != ".default"', "")

provider_words = door("authenticate/provider/tokens.py", "unit/authenticate/views/test_callback.py")
provider_words.without("a provider's words are one printable line", 'letter if letter.isprintable() else " "', "letter")
echoes = door("authenticate/provider/tokens.py", "unit/authenticate/provider/test_client.py")
echoes.without("secrets are blanked out of a provider's words", '        words = words.replace(secret, "***")\n', "        pass\n")
echoes.without("secrets are blanked out of a provider's code", "cleaned(error_code(answer), answer.secrets)", "error_code(answer)")
questions = door("authenticate/provider/http.py", "unit/authenticate/provider/test_client.py")
questions.without("credentials are secrets of a question", "    found = {credentials}\n", "    found = set[str]()\n")
questions.without("Basic credentials hold a secret", '    if scheme == "Basic":\n', "    if False:\n")
questions.without("forms hold secrets", '    if headers.get("Content-Type") == FORM:\n', "    if False:\n")
provider_words.without("a provider's words are bounded", "if len(line) <= MAX_WORDS else", "if True else")
answers = door("authenticate/views/answers.py", "unit/authenticate/views/test_callback.py")
answers.without("a network has no more than its share", "    if not places.take(network):\n", '    if not places.take(""):\n')
pushed_request = door("authenticate/provider/pushed_request.py", "unit/authenticate/provider/test_pushed_request.py")
pushed_request.without("a request that the provider did not take is not sent", "if answer.status not in (200, 201):", "if False:")
authorization_request = door("authenticate/views/authorization_request.py", "unit/authenticate/provider/test_pushed_request.py")
authorization_request.without("requests are pushed where they can be", "push=push if is_pushed else None", "push=None")

issuer = door("authenticate/provider/issuer.py", "unit/authenticate/provider/test_issuer.py", "unit/authenticate/provider/test_id_token.py")
issuer.without("a tenant is a GUID", "if not isinstance(tenant, str) or not is_tenant(tenant):", "if not isinstance(tenant, str):")
issuers = door("config/issuers.py", "unit/config/test_issuers.py")
issuers.without("a tenant is of the configured host", "named.startswith(before) and named.endswith(after) and", "named.endswith(after) and")
issuers.without("an open tenant is a GUID", " and is_tenant(named[len(before) : len(named) - len(after)])", "")
issuer.without("the key of one tenant signs for no other", "return owner is None or owner == named or", "return True or")

azure = door("authenticate/providers/azure.py", "unit/authenticate/providers/test_azure.py")
azure.without("a stranger's tenant does not vouch for addresses", "if TENANT not in self.issuer:", "if True:")

github = door("authenticate/providers/github.py", "unit/authenticate/providers/test_github.py")
github.without("only a verified address of GitHub counts", ' and entry.get("verified") is True', "")

sign_in_view = door("authenticate/views/sign_in.py", "unit/authenticate/views/test_sign_in.py")
sign_in_view.without(
    "sign-in leads to hosts of ours with an attempt only",
    "if target is None or not (service.targets.is_own(target) or is_attempt_id(attempt_id)):",
    "if target is None:",
)

sessions = door("authenticate/session/sessions.py", "unit/authenticate/session/test_sessions.py")
sessions.without(
    "what has expired is no session at the sign-in",
    "return session if session is not None and session.expires > now else None",
    "return session",
)

provider = door("authenticate/providers/base.py", "unit/authenticate/providers/test_oidc.py", "unit/authenticate/views/test_callback.py")
provider.without("an address that either does not vouch for is unverified", ", **doubted}", "}")

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
)
