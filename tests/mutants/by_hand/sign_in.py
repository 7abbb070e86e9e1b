"""Defences of the sign-in: the provider is the configured one, its answer is to our question, and the token is for us."""

from tests.mutants.mutant import door
from tests.mutants.operations import in_text, lacks, omits, passes, replaced, skips

key_set = door(
    "authenticate.provider.tokens.key_set",
    "unit/authenticate/provider/tokens/test_key_set.py",
    "unit/authenticate/provider/tokens/test_id_token.py",
)
key_set.without("at_hash is of its algorithm", "ALGORITHMS", replaced("hashlib.sha384", "hashlib.sha256", 3))
key_set.without(
    "older keys judge no refreshed token",
    "KeySet.refetched_keys",
    omits("fetched_after"),
    "unit/authenticate/session/test_session_refresh.py",
)

discovery = door("authenticate.provider.discovery", "unit/authenticate/provider/test_discovery.py")
discovery.without(
    "endpoints keep to TLS",
    "is_secure_url",
    replaced("is_encrypted_or_local(parts.scheme, host)", 'parts.scheme in ("http", "https")'),
)

connection_errors = door("foundation.connection_errors", "unit/foundation/test_connection_errors.py")
connection_errors.without("a cause that its library hides is found", "_causes", lacks("error.__context__"))

provider_http = door("authenticate.provider.provider_http", "unit/authenticate/provider/test_provider_http.py")
provider_http.without("the provider's redirects are not followed", "ProviderHttp.__init__", passes(follow_redirects="True"))

address_scope = door("authenticate.provider.address_scope", "unit/authenticate/provider/test_address_scope.py")
address_scope.without("addresses are dialled in scope alone", "ScopedTransport.__init__", omits("network_backend"))
address_scope.without("embedded addresses count", "address_kinds", replaced("_embedded(address)", "address"))

oidc = door(
    "authenticate.provider.django_oidc", "unit/authenticate/views/test_callback.py", "unit/authenticate/provider/test_django_oidc.py"
)
oidc.without("the code's verifier is sent", "GateBackend.authenticate", lacks('"code_verifier"'))
oidc.without(
    "the code challenge is sent",
    "GateRequestView.get",
    lacks('"code_challenge"'),
    "unit/authenticate/views/test_sign_in.py",
    "unit/authenticate/views/test_callback.py",
)

client = door(
    "authenticate.provider.provider_client", "unit/authenticate/views/test_callback.py", "unit/authenticate/provider/test_django_oidc.py"
)

oidc.without(
    "an unneeded scope locks no user out",
    "GateBackend._check_scope",
    replaced("if missing.required: ...", "if missing.needed or missing.other: ..."),
    "unit/authenticate/views/test_callback.py",
)
REGISTRY = "unit/authenticate/provider/kinds/test_kind_registry.py"
scopes = door("authenticate.provider.kinds.oidc_provider", REGISTRY)
scopes.without(
    "what was taken out is seen, beside what was given",
    "OIDCProvider.missing_scopes",
    replaced("name not in granted_names", "not granted_names"),
)
scopes.without("scopes may stand between commas", "OIDCProvider.scope_names", replaced(r're.split(r"[,\s]+", scopes)', "scopes.split()"))
scopes.without(
    "Google's long names are known everywhere", "OIDCProvider.scope_names", replaced("name.removeprefix(_GOOGLE_SCOPE_PREFIX)", "name")
)
scopes_of_azure = door("authenticate.provider.kinds.azure_provider", REGISTRY)
scopes_of_azure.without("another's address is not Microsoft Graph's", "_GRAPH", in_text("(https:", "(.*|https:"))
scopes_of_azure.without("the case of a scope says nothing", "AzureProvider.scope_names", replaced("name.lower()", "name"))

echoes = door("authenticate.provider.tokens.token_response", "unit/authenticate/provider/test_provider_client.py")
echoes.without("secrets are blanked out of a provider's words", "sanitize", skips("text = ..."))
echoes.without(
    "secrets are blanked out of a provider's code",
    "error_text",
    replaced("sanitize(error_code(answer), answer.secrets)", "error_code(answer)"),
)
questions = door("authenticate.provider.provider_http", "unit/authenticate/provider/test_provider_client.py")
questions.without("credentials are secrets of a question", "_secrets", replaced("{credentials}", "set[str]()"))
answers = door("authenticate.views.view_helpers", "unit/authenticate/views/test_callback.py")
answers.without("a network has no more than its share", "sign_in_slot", replaced("slots.acquire(network)", 'slots.acquire("")'))

client.without(
    "claims are bounded on arrival",
    "ProviderClient.check_limits",
    replaced('check_claims(claims, f"the identity provider {self.provider.id}")', "claims"),
    "unit/authenticate/provider/test_claim_limits.py",
    "unit/authenticate/test_bearer_token_verification.py",
)
bearer_claims = door("authenticate.bearer_token_verification", "unit/authenticate/test_bearer_token_verification.py")
bearer_claims.without(
    "claims of another issuer are bounded",
    "BearerTokens._claims",
    replaced('check_claims(claims, f"the issuer {policy.issuer}")', "claims"),
)
renewal = door("authenticate.session.session_refresh", "unit/authenticate/provider/test_claim_limits.py")
renewal.without(
    "whose claims grow keeps no old ones",
    "SessionRefresh.renew",
    replaced("(SubjectMismatch, ClaimsTooLarge, InvalidSignedToken)", "(SubjectMismatch, InvalidSignedToken)"),
)

provider = door(
    "authenticate.provider.email_verification",
    "unit/authenticate/provider/kinds/test_oidc_provider.py",
    "unit/authenticate/views/test_callback.py",
)
provider.without("an address that either does not vouch for is unverified", "merge_claims", lacks("**doubted"))
