"""Defences on the way to the upstream and back: what only we may say, what may not be split, which connection is used again."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, never, passes, replaced, returns

REQUEST_HEADERS = "unit/proxy/rewriting/test_request_headers.py"
names = door("proxy.rewriting.header_names", REQUEST_HEADERS)
names.without("names are compared folded", "fold", returns("name.lower()"))

request_headers = door("proxy.rewriting.request_headers", REQUEST_HEADERS)
request_headers.without(
    "our cookies stay here", "cookies_of_others.without_ours", replaced("cookies.without([cookie], is_ours)", "[cookie]")
)

response_headers = door("proxy.rewriting.response_headers", "unit/proxy/rewriting/test_response_headers.py")

response_headers.without(
    "what is to go is gone",
    "ResponseHeaders.of_route",
    replaced(
        "cls._of({name: value for name, value in added.items() if name not in removed}, removed, options)", "cls._of(added, (), options)"
    ),
)
response_headers.without(
    "no name ends another rule for Envoy", "ResponseHeaders.told_to_envoy", replaced("f\"-{quote(name, safe='')}\"", 'f"-{name.decode()}"')
)
response_headers.without(
    "an upstream's names of headers fill no memory",
    "",
    replaced("Remembered(_response_name, 4096, longest=LONGEST_REMEMBERED)", "Remembered(_response_name, 4096, longest=10**9)"),
)

cookies = door("foundation.crypto.cookies", "unit/foundation/crypto/test_cookies.py")
cookies.without("our cookies are ours in any case", "is_ours", replaced("name.lower()", "name"))
cookies.without("the companions are ours", "is_ours", never('read.startswith(own + b"_")'))
cookies.without(
    "cookies named with a prefix are ours",
    "is_ours",
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
header_values = door("authorize.upstream.header_values", "unit/authorize/upstream/test_header_values.py")
header_values.without("no blank is lost on the way", "_element", replaced('"%20" * len(blanks[0])', "blanks[0]"))
header_values.without("nor the only element of a list", "header_value", replaced("list | ListedValues", "list"))
header_values.without("one group can't read as two", "header_value", replaced('_element(item).replace(b",", b"%2C")', "_element(item)"))

WORDS = "contract/test_verdict_matrix.py"
told_headers = door("authorize.upstream.told_headers", "unit/authorize/upstream/test_told_headers.py")
told_headers.without("no bare name of another is told", "PersonFacts.value", replaced("identity.own_subject", "identity.subject"))
told_headers.without(
    "an empty claim is none", "_filled", replaced("(said := header_value(value))", "(said := header_value(value)) is not None")
)
told_templates = door("config.routes.told_headers", "unit/config/routes/test_told_headers.py")
told_templates.without("nobody but gate says who asks", "told_names", returns("()"), WORDS)
TOLD = ("unit/config/routes/test_told_headers.py", "unit/proxy/test_state.py")
told_templates.without(
    "what an upstream is told on one route nobody says on another", "ToldNames.of", replaced("(*own, *there)", "own"), *TOLD
)
told_templates.without(
    "a port that is left out is one, too",
    "upstream_addresses",
    replaced("upstream.url.port or _PORTS.get(upstream.url.scheme)", "upstream.url.port"),
    *TOLD,
)
told_templates.without(
    "who believes one header believes those beside it", "_names_of", replaced("(*told, *preset, *beside)", "(*told, *preset)"), TOLD[0]
)
CREDENTIALS = "unit/proxy/test_upstream_credentials.py"

credentials = door("authorize.upstream.credentials", "unit/authorize/upstream/test_credentials.py")
credentials.without(
    "a cluster is asked in somebody's name",
    "UpstreamCredentials._impersonation",
    replaced("raise NobodyToActFor(...)", 'return ((b"authorization", authorization),)'),
    CREDENTIALS,
)

verdicts = door("proxy.verdicts", "unit/proxy/test_verdicts.py", "unit/authorize/rpc/test_ext_authz.py")

verdicts.without("no client pretends past another proxy", "Verdicts._require_askable", never("self._claims_to_be_told(...)"), WORDS)
verdicts.without(
    "no client pretends by what our listener left out",
    "Verdicts._claims_to_be_told",
    replaced("incoming.sent_names", "incoming.headers"),
    WORDS,
)
asked_by_envoys = door("proxy.planes.ext_authz", WORDS)
asked_by_envoys.without("no client pretends past an Envoy", "ExtAuthzResponder._cut", never("fold(name) in by_route"))

published = door("authenticate.published_keys", "unit/authenticate/test_published_keys.py")
published.without("a generated key is nobody's business", "PublishedKeys.run", always("self._key.is_configured"))

RULE = "provider_tokens_are_guarded"
PROVIDER_TOKENS = "unit/authorize/upstream/test_provider_tokens.py"

rewrite = door("proxy.rewriting.target", "unit/proxy/rewriting/test_target.py")

rewrite.without(
    "a client names a host and nothing else",
    "_host",
    returns("named"),
)

redirects = door("proxy.answers.redirects", "unit/proxy/answers/test_redirects.py")
redirects.without("a redirected path can't end its header", "_absolute", returns("path"))

client_tls = door("foundation.client_tls", "contract/test_private_authorities.py")
client_tls.without("a certificate that was issued is no authority, whatever Python", "verifying_context", replaced("~_SINCE_3_13", "-1"))
grpc_health = door("proxy.upstreams.grpc_health", "unit/proxy/upstreams/test_grpc_health.py")
grpc_health.without("a health check verifies an upstream as requests do", "ask_by_grpc", passes(verify="False"))
TROUBLED = "contract/test_upstreams_in_trouble.py"
statuses = door("proxy.upstreams.upstream_errors", TROUBLED)
statuses.without("a status that HTTP does not have is no answer", "bad_status", never("not 100 <= status <= 599"))
interims = door("proxy.upstreams.client", TROUBLED)
interims.without("interim answers have an end", "UpstreamExchange.response", replaced("MOST_INTERIM + 1", "10**9"))
descriptors = door("proxy.upstreams.upstream_errors", "unit/proxy/upstreams/test_upstream_errors.py")
descriptors.without(
    "no byte of a malformed response is logged", "malformed", replaced("match['llhttp'] or match['aiohttp']", "error.message")
)

upstream = door("proxy.upstreams.client", "unit/proxy/upstreams/test_client.py")
upstream.without(
    "a request that may authenticate a connection takes a new one",
    "UpstreamClient.open",
    never("request.connection_use is ConnectionUse.OWN"),
)
upstream.without(
    "a connection that a response calls authenticated is not used again",
    "UpstreamExchange.response",
    never("authenticates_connection(headers)"),
)
upstream.without(
    "a connection on which a body may come late is not used again", "UpstreamExchange.response", never("message.code in _BODILESS")
)
upstream.without(
    "what said something is not taken for stale",
    "UpstreamExchange.response",
    never("self._protocol.has_spoken"),
)
upstream.without("little is held for a slow reader", "UpstreamExchange.begin", passes(read_bufsize="1 << 18"))

pages = door("foundation.web.pages", "unit/foundation/web/test_pages.py")
pages.without("pages escape what they show", "_environment", passes(autoescape="False"))
pages.without("no script of an application's runs in a page of ours", "headers", replaced("hash_source(TIMES_SCRIPT)", "\"'self'\""))
pages.without(
    "a page has the style that its brand's hash names", "headers", replaced("[style, files.style]", "[NO_BRAND.style, files.style]")
)

forwarding_headers = door("proxy.rewriting.forwarding", "unit/proxy/rewriting/test_forwarding.py")
forwarding_headers.without("a port belongs to its scheme", "_port", replaced("{*_DEFAULT_PORTS.values()} - {default}", "()"))
forwarding_headers.without(
    "a trusted peer's Forwarded counts alone", "_forwarding", replaced('given.keys() == {b"forwarded"}', 'b"forwarded" in given')
)

DATAPLANE = "unit/proxy/planes/test_embedded.py"

DOORS = (
    names,
    request_headers,
    response_headers,
    cookies,
    identity_headers,
    header_values,
    told_headers,
    told_templates,
    credentials,
    verdicts,
    asked_by_envoys,
    published,
    rewrite,
    redirects,
    client_tls,
    grpc_health,
    statuses,
    interims,
    descriptors,
    upstream,
    pages,
    forwarding_headers,
)
