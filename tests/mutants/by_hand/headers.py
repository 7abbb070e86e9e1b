"""Defences on the way to the upstream and back: what only we may say, what may not be split, which connection is used again."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, returns

REQUEST_HEADERS = "unit/proxy/rewriting/test_request_headers.py"
names = door("proxy.rewriting.reserved_headers", REQUEST_HEADERS)
names.without("names are compared folded", "fold", returns("name.lower()"))

request_headers = door("proxy.rewriting.request_headers", REQUEST_HEADERS)
request_headers.without(
    "our cookies stay here", "gate_cookie_filter.strip", replaced("cookies.strip_cookies([cookie], is_gate_cookie)", "[cookie]")
)

response_headers = door("proxy.rewriting.response_headers", "unit/proxy/rewriting/test_response_headers.py")

response_headers.without(
    "what is to go is gone",
    "ResponseHeaderRules.for_route",
    replaced(
        "cls._build({name: value for name, value in added.items() if name not in removed}, removed, options)",
        "cls._build(added, (), options)",
    ),
)
response_headers.without(
    "no name ends another rule for Envoy",
    "ResponseHeaderRules.to_envoy_rules",
    replaced("f\"-{quote(name, safe='')}\"", 'f"-{name.decode()}"'),
)
response_headers.without(
    "an upstream's names of headers fill no memory",
    "",
    replaced(
        "MemoCache(_response_name, 4096, max_key_length=MAX_CACHED_NAME_BYTES)", "MemoCache(_response_name, 4096, max_key_length=10**9)"
    ),
)

cookies = door("foundation.crypto.cookies", "unit/foundation/crypto/test_cookies.py")
cookies.without("gate's cookies are recognized in any case", "is_gate_cookie", replaced("name.lower()", "name"))
cookies.without("binding cookies are recognized", "is_gate_cookie", never('each.startswith(gate_name + b"_")'))
cookies.without(
    "cookies with a prefix are recognized",
    "is_gate_cookie",
    replaced("(folded, folded.removeprefix(HOST_PREFIX.lower().encode()))", "(folded.removeprefix(HOST_PREFIX.lower().encode()),)"),
)
cookies.without(
    "cookies are not sent across sites",
    "set_cookie",
    lacks('"SameSite=Lax"'),
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)

identity_headers = door("authorize.upstream.identity_headers", "unit/authorize/upstream/test_identity_headers.py")
identity_headers.without(
    "an assertion is for one host", "IdentityHeaders.headers_for", replaced("(..., host_port, route.id)", "(..., '', route.id)")
)
header_values = door("authorize.upstream.identity_header_templates", "unit/authorize/upstream/test_identity_header_templates.py")
header_values.without("no blank is lost on the way", "_element", replaced('"%20" * len(blanks[0])', "blanks[0]"))
header_values.without("nor the only element of a list", "header_value", replaced("list | ListedValues", "list"))
header_values.without("one group can't read as two", "header_value", replaced('_element(item).replace(b",", b"%2C")', "_element(item)"))

MATRIX = "contract/test_verdict_matrix.py"
template_rendering = door("authorize.upstream.identity_header_templates", "unit/authorize/upstream/test_identity_header_templates.py")
template_rendering.without(
    "no bare name of another issuer is sent", "IdentityVariables.value", replaced("identity.unqualified_subject", "identity.subject")
)
template_rendering.without(
    "an empty claim is none", "_substitute", replaced("(rendered := header_value(value))", "(rendered := header_value(value)) is not None")
)
header_templates = door("config.routes.route_identity_headers", "unit/config/routes/test_route_identity_headers.py")
header_templates.without("only gate sets identity headers", "reserved_headers", returns("()"), MATRIX)
HEADER_TESTS = ("unit/config/routes/test_route_identity_headers.py", "unit/proxy/test_route_forwarding.py")
header_templates.without(
    "an identity header of one route is removed on another",
    "IdentityHeaderNames.headers_for",
    replaced("(*names, *there)", "names"),
    *HEADER_TESTS,
)
header_templates.without(
    "a port that is left out is one, too",
    "upstream_addresses",
    replaced("upstream.url.port or _PORTS.get(upstream.url.scheme)", "upstream.url.port"),
    *HEADER_TESTS,
)
header_templates.without(
    "who believes one header believes those beside it",
    "_build_names",
    replaced("(*set_by_gate, *preset, *related)", "(*set_by_gate, *preset)"),
    HEADER_TESTS[0],
)
CREDENTIALS = "unit/proxy/test_upstream_credentials.py"

credentials = door("authorize.upstream.upstream_credentials", "unit/authorize/upstream/test_upstream_credentials.py")
credentials.without(
    "a cluster token is sent with an impersonated user",
    "UpstreamCredentials._impersonation",
    replaced("raise NoIdentity(...)", 'return ((b"authorization", authorization),)'),
    CREDENTIALS,
)

verdicts = door("proxy.verdict_builder", "unit/proxy/test_verdict_builder.py", "unit/authorize/rpc/test_ext_authz.py")

verdicts.without(
    "no client pretends past another proxy", "VerdictBuilder._require_delegable", never("self._spoofs_identity_header(...)"), MATRIX
)
verdicts.without(
    "no client pretends by what our listener left out",
    "VerdictBuilder._spoofs_identity_header",
    replaced("incoming.client_header_names", "incoming.headers"),
    MATRIX,
)
envoy_requests = door("proxy.planes.ext_authz", MATRIX)
envoy_requests.without(
    "no client pretends past an Envoy", "ExtAuthzResponder._header_mutations", never("fold(name) in route_identity_names")
)

published = door("authenticate.jwks_publisher", "unit/authenticate/test_jwks_publisher.py")
published.without("a generated key is not published", "JwksPublisher.run", always("self._key.is_configured"))

RULE = "check_provider_token_exposure"
PROVIDER_TOKENS = "unit/authorize/upstream/test_provider_token_headers.py"

rewrite = door("proxy.rewriting.target", "unit/proxy/rewriting/test_target.py")

rewrite.without(
    "a client names a host and nothing else",
    "_validate_host",
    returns("host_header"),
)

redirects = door("proxy.responses.route_redirects", "unit/proxy/responses/test_route_redirects.py")
redirects.without("a redirected path can't end its header", "_quote_path", returns("path"))

client_tls = door("foundation.client_tls", "contract/test_private_authorities.py")
client_tls.without("a certificate that was issued is no authority, whatever Python", "verifying_context", replaced("~_PY313_FLAGS", "-1"))
grpc_health = door("proxy.upstreams.grpc_health", "unit/proxy/upstreams/test_grpc_health.py")
grpc_health.without("a health check verifies an upstream as requests do", "check_grpc", passes(verify="False"))
TROUBLED = "contract/test_upstreams_in_trouble.py"
statuses = door("proxy.upstreams.upstream_errors", TROUBLED)
statuses.without("a status that HTTP does not have is no answer", "bad_status", never("not 100 <= status <= 599"))
interims = door("proxy.upstreams.upstream_exchange", TROUBLED)
interims.without("interim answers have an end", "UpstreamExchange.read_response", replaced("MAX_INTERIM_RESPONSES + 1", "10**9"))
descriptors = door("proxy.upstreams.upstream_errors", "unit/proxy/upstreams/test_upstream_errors.py")
descriptors.without(
    "no byte of a malformed response is logged", "malformed", replaced("match['llhttp'] or match['aiohttp']", "error.message")
)

upstream = door("proxy.upstreams.upstream_client", "unit/proxy/upstreams/test_upstream_client.py")
upstream.without(
    "a request that may authenticate a connection takes a new one",
    "UpstreamClient.open",
    never("request.connection_use is ConnectionUse.EXCLUSIVE"),
)
exchange = door("proxy.upstreams.upstream_exchange", "unit/proxy/upstreams/test_upstream_client.py")
exchange.without(
    "a connection that a response calls authenticated is not used again",
    "UpstreamExchange.read_response",
    never("authenticates_connection(headers)"),
)
exchange.without(
    "a connection on which a body may come late is not used again", "UpstreamExchange.read_response", never("message.code in _BODILESS")
)
exchange.without(
    "what said something is not taken for stale",
    "UpstreamExchange.read_response",
    never("self._protocol.received_any"),
)
exchange.without("little is held for a slow reader", "UpstreamExchange.send_head", passes(read_bufsize="1 << 18"))

pages = door("foundation.web.pages", "unit/foundation/web/test_pages.py")
pages.without("pages escape what they show", "_environment", passes(autoescape="False"))
pages.without("no script of an application runs in a page of gate", "security_headers", replaced("csp_hash(TIMES_SCRIPT)", "\"'self'\""))
pages.without(
    "a page has the style that its brand's hash names",
    "security_headers",
    replaced("[style, files.style]", "[NO_BRAND.style, files.style]"),
)

forwarding_headers = door("proxy.rewriting.forwarded_headers", "unit/proxy/rewriting/test_forwarded_headers.py")
forwarding_headers.without("a port belongs to its scheme", "_port", replaced("{*_DEFAULT_PORTS.values()} - {default}", "()"))
forwarding_headers.without(
    "a trusted peer's Forwarded counts alone", "_build", replaced('by_name.keys() == {b"forwarded"}', 'b"forwarded" in by_name')
)

DATAPLANE = "unit/proxy/planes/test_embedded.py"

# Defences of forward auth: one URL from one source, in one reading; and no 2xx but for a permission.

original = door("proxy.planes.original_request", "unit/proxy/planes/test_original_request.py")
original.without(
    "no header is left out of the comparison",
    "TARGET_HEADERS",
    lacks('b"x-original-uri"'),
)
original.without(
    "both methods must agree",
    "METHOD_HEADERS",
    lacks('b"x-original-method"'),
)
original.without(
    "hosts that differ are refused",
    "parse_original_request",
    replaced("_require_agreement([_parse_host(host, scheme) for host in hosts], 'host')", "hosts[0]"),
)
original.without("an encoded URL ends where it ends", "_uri_parameter", replaced("_ENCODED_URL.fullmatch", "_ENCODED_URL.match"))
original.without("a user name is no part of a URL", "_URL", in_text(b"([", b"(?:[^/?#@\\\\]+@)?(["))

forward_auth = door("proxy.planes.forward_auth", "unit/proxy/planes/test_forward_auth.py")
forward_auth.without("an odd spelling of what proxies say does not pass", "_reject_forged_headers", replaced("name.lower()", "folded"))
forward_auth.without(
    "a front proxy sends gate what is listed, and nothing else",
    "_reject_forged_headers",
    replaced("name.lower() in FRONT_PROXY_NAMES", 'name.lower() in FRONT_PROXY_NAMES or name.startswith(b"x-forwarded-")'),
)
forward_auth.without(
    "an absent claim replaces the client's",
    "ForwardAuth._allow_headers",
    replaced("[(name, identity_headers.get(name, b'')) for name in names]", "list(verdict.identity_headers)"),
)
forward_auth.without(
    "no permission outlives its session",
    "ForwardAuth._cache_headers",
    replaced("min(seconds, identity.expires_at - decision.now)", "seconds"),
)

# Defences of forms that are kept across a sign-in: whose they are, how many, and that each arrives once where it was sent.

forms = door("proxy.sign_in.saved_forms", "unit/proxy/sign_in/test_saved_forms.py", "unit/proxy/views/test_form_replay.py")
forms.without(
    "another site's form is not kept",
    "SavedForms._is_same_origin",
    replaced('site == "same-origin"', 'site in ("same-origin", "cross-site", "none")'),
)
forms.without(
    "a sibling's form is not kept",
    "SavedForms._is_same_origin",
    replaced('site == "same-origin"', 'site in ("same-origin", "same-site")'),
)
forms.without("Origin has a say beside Sec-Fetch-Site", "SavedForms._is_same_origin", always('origin in ("", "null", route_origin)'))
forms.without(
    "who names no origin is not trusted", "SavedForms._is_same_origin", replaced("origin == route_origin", 'origin in ("", route_origin)')
)
forms.without("an address has a few places", "SavedForms._store", omits("only_if_version"))
forms.without(
    "a form arrives once", "SavedForms.restore", replaced("not await self._consume(form)", "(await self._consume(form), False)[1]")
)
forms.without("a sibling domain plants no form", "SavedForms.__init__", passes(secure="False"))

cookies = door("foundation.crypto.cookies", "unit/foundation/crypto/test_cookies.py")
cookies.without(
    "a prefix hides no cookie of gate", "is_gate_cookie", replaced("folded.removeprefix(HOST_PREFIX.lower().encode())", "folded")
)

# Defences under third-party ASGI servers: ambiguous requests are refused, and client addresses are not trusted.

scope = door("proxy.third_party_asgi.strict_scope", "unit/proxy/third_party_asgi/test_strict_scope.py")
scope.without(
    "a missing path is refused",
    "_target",
    replaced(
        "if not isinstance(raw_path, bytes) or not isinstance(query, bytes):\n    ...",
        "if raw_path is None:\n    raw_path = str(scope['path']).encode()",
    ),
)
scope.without(
    "a client is no client's word with a port", "_is_from_forwarded_for", replaced("hop.startswith((f'{host}:', f'[{host}]:'))", "False")
)
scope.without(
    "extensions of other servers are not believed",
    "strict_scope",
    replaced("{}", "scope.get('extensions', {})"),
)

answers = door("proxy.third_party_asgi.http_adapter", "unit/proxy/third_party_asgi/test_http_adapter.py")
answers.without(
    "an answer through other servers is not split",
    "_ValidatingSend.send",
    replaced("ResponseHead(self._method, message['status'], message['headers'])", "ResponseHead(self._method, message['status'], [])"),
)
answers.without("a broken answer is not finished", "_ValidatingSend.send", replaced("self._is_aborted = True", "return"))
