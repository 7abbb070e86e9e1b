"""Defences on the way to the upstream and back: what only we may say, what may not be split, which connection is used again."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, never, passes, replaced, returns, skips

REQUEST_HEADERS = "unit/proxy/rewriting/test_request_headers.py"
names = door("proxy.rewriting.header_names", REQUEST_HEADERS)
names.without("names are compared folded", "fold", returns("name.lower()"))
names.without(
    "names without their dashes are ours, too",
    "is_internal_header",
    never("squeezed in _DASHLESS_NAMES or squeezed in _STEERING_NAMES or squeezed.startswith(_DASHLESS_PREFIXES)"),
)
names.without("headers that steer an application are dropped", "is_internal_header", never("squeezed in _STEERING_NAMES"))

request_headers = door("proxy.rewriting.request_headers", REQUEST_HEADERS)
request_headers.without("identity headers of clients are dropped", "_becomes", never("is_internal_header(folded)"))
request_headers.without(
    "hop-by-hop headers are dropped",
    "_becomes",
    never("folded in HOP_BY_HOP"),
)
request_headers.without(
    "our cookies stay here", "cookies_of_others.without_ours", replaced("cookies.without([cookie], is_ours)", "[cookie]")
)
request_headers.without("our credentials stay here", "RouteHeaders._cleaned", always("kind != AUTHORIZATION"))
request_headers.without(
    "Connection can't take Cookie or Authorization away", "_without_named", never("_KNOWN[pair[0]][0] in (COOKIE, AUTHORIZATION)")
)
request_headers.without(
    "what Connection names goes no further",
    "RouteHeaders.for_upstream",
    never("options - CONNECTION_STATES"),
)
request_headers.without(
    "forwarding headers are a trusted peer's", "RouteHeaders.for_upstream", always("forwarded and downstream.address in self.trusted")
)
request_headers.without("a route's headers can't say who somebody is", "RouteHeaders.build", always("_may_be_set(fold(pair[0]))"))
request_headers.without("a request has one framing", "framing", skips("if lengths: ..."))

response_headers = door("proxy.rewriting.response_headers", "unit/proxy/rewriting/test_response_headers.py")
response_headers.without("a response header is not split", "ResponseHeaders.for_client", never("_UNSAFE_VALUE.search(value)"))
response_headers.without(
    "an upstream sets no cookie that a request may not hold", "ResponseHeaders.for_client", never("has_c1_control(value)")
)
response_headers.without(
    "an upstream can't set our cookies", "ResponseHeaders.for_client", never('name == b"set-cookie" and self._sets_ours(value)')
)

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

bounded = door("foundation.bounded_cache", "unit/foundation/test_bounded_cache.py")
bounded.without("what is long is not remembered", "bounded_lru_cache.remembering.of_one", returns("cached(argument)"))
bounded.without("of several the sum counts", "bounded_lru_cache.remembering.of_several", returns("cached(*arguments)"))
bounded.without("what is long is worked out anew", "Remembered.__missing__", never("size > self._longest"))
bounded.without("what is remembered is bounded in number", "Remembered.__missing__", never("len(self) >= self._most"))
bounded.without("what is remembered is bounded in bytes", "Remembered.__missing__", never("self.bytes + size > self._most_bytes"))
bounded.without("a cache is bounded in bytes", "BoundedCache.put", never("self.bytes > self._most_bytes"))
bounded.without("a large value pushes out no others", "BoundedCache.put", never("weight * 100 > self._most_bytes"))

packed = door("databroker.record_cache", "unit/databroker/test_record_cache.py")
packed.without("records are bounded in bytes", "RecordCache.put", never("self._bytes > MOST_BYTES"))
packed.without("a new record is noticed", "RecordCache.put", skips("self._writes.number += 1"))
packed.without("a dropped record is noticed", "RecordCache.drop", skips("self._writes.number += 1"))
packed.without("an emptied cache is noticed", "RecordCache.clear", skips("self._writes.number += 1"))
packed.without("large records are not kept open", "RecordCache.get", never("len(packed) > LARGE"))

cookies = door("foundation.crypto.cookies", "unit/foundation/crypto/test_cookies.py")
cookies.without("our cookies are ours in any case", "is_ours", replaced("name.lower()", "name"))
cookies.without("the companions are ours", "is_ours", never('read.startswith(own + b"_")'))
cookies.without(
    "cookies named with a prefix are ours",
    "is_ours",
    replaced("(folded, folded.removeprefix(HOST_PREFIX.lower().encode()))", "(folded.removeprefix(HOST_PREFIX.lower().encode()),)"),
)
cookies.without(
    "cookies are hidden from scripts",
    "set_cookie",
    never("http_only"),
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)
cookies.without(
    "cookies are not sent across sites",
    "set_cookie",
    lacks('"SameSite=Lax"'),
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)

identity_headers = door("authorize.upstream.identity_headers", "unit/authorize/upstream/test_identity_headers.py")
identity_headers.without("identity is passed where the route says so", "IdentityHeaders._made", always("route.route.pass_identity_headers"))
identity_headers.without(
    "what was signed of old facts is not used again", "IdentityHeaders.headers_for", never("known.identity is not identity")
)
identity_headers.without(
    "an assertion is for one host", "IdentityHeaders.headers_for", replaced("(..., host_port, route.id)", "(..., '', route.id)")
)
header_values = door("authorize.upstream.header_values", "unit/authorize/upstream/test_header_values.py")
header_values.without("a claim can't end its header", "_element", always("text.isprintable()"))
header_values.without("no blank is lost on the way", "_element", replaced('"%20" * len(blanks[0])', "blanks[0]"))
header_values.without("nor the only element of a list", "header_value", replaced("list | ListedValues", "list"))
header_values.without("one group can't read as two", "header_value", replaced('_element(item).replace(b",", b"%2C")', "_element(item)"))
identity_headers.without(
    "no address of another issuer is told as ours", "IdentityHeaders._made", never("identity is not None and identity.is_foreign")
)
identity_headers.without("upstreams get verified addresses", "attested_email", always("identity.rule_email"))

identity_headers.without("a filter keeps groups from upstreams", "filtered", returns("groups"))

WORDS = "contract/test_verdict_matrix.py"
told_headers = door("authorize.upstream.told_headers", "unit/authorize/upstream/test_told_headers.py")
told_headers.without("what another issuer says of its people is not told as ours", "PersonFacts.value", never("identity.is_foreign"))
told_headers.without("no bare name of another is told", "PersonFacts.value", replaced("identity.own_subject", "identity.subject"))
told_headers.without(
    "an empty claim is none", "_filled", replaced("(said := header_value(value))", "(said := header_value(value)) is not None")
)
told_headers.without("no request goes on in nobody's name", "_filled", never("name == _AUTHORIZATION"))
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
told_templates.without("what varies is not remembered", "varies_by_request", returns("False"))
CREDENTIALS = "unit/proxy/test_upstream_credentials.py"
request_headers.without(
    "what stands in for our Authorization is ours",
    "RouteHeaders.build",
    never("authorizes(route, options)"),
    CREDENTIALS,
)
request_headers.without(
    "a route's own headers don't stand in for our Authorization", "RouteHeaders.build", always("fold(pair[0]) not in ours"), CREDENTIALS
)

service = door("authorize.service", CREDENTIALS)
service.without(
    "a preflight shows no credentials of ours",
    "AuthorizeService.credentials_for",
    never("check.decision.is_preflight"),
)

credentials = door("authorize.upstream.credentials", "unit/authorize/upstream/test_credentials.py")
credentials.without(
    "a cluster is asked in somebody's name",
    "UpstreamCredentials._impersonation",
    replaced("raise NobodyToActFor(...)", 'return ((b"authorization", authorization),)'),
    CREDENTIALS,
)
credentials.without(
    "nobody gets a name that the cluster keeps for itself", "_may_be_named", always("not name.lower().startswith(RESERVED)")
)
credentials.without("a name can't end its header", "_may_be_named", always("name.isprintable()"))
credentials.without("a mailbox does not pass for a user id", "impersonated_user", always('"/" not in email'))
credentials.without("what was made of old facts is not used again", "UpstreamCredentials._impersonation", always("cached[0] is identity"))

serverless = door("authorize.upstream.cloud_serverless", "unit/authorize/upstream/test_cloud_serverless.py")
serverless.without("a token is for this upstream", "IdentityTokens._checked", never('claims.get("aud") != audience'))
serverless.without("a token is a JWT", "IdentityTokens._checked", never("not _TOKEN.fullmatch(token)"))
serverless.without("a token that ends is not used", "IdentityTokens.token_for", always("now < held.expires - UNUSED_BEFORE_EXPIRY"))
serverless.without("a token has time left", "IdentityTokens._checked", never("expires - UNUSED_BEFORE_EXPIRY <= now"))
serverless.without(
    "a metadata server says that it is one",
    "IdentityTokens._from_metadata",
    never('answer.headers.get("metadata-flavor") != METADATA_FLAVOR["Metadata-Flavor"]'),
)
serverless.without("a failure is not repeated at once", "IdentityTokens._has_just_failed", returns("False"))

verdicts = door("proxy.verdicts", "unit/proxy/test_verdicts.py", "unit/authorize/rpc/test_ext_authz.py")
verdicts.without("nobody else carries what shows our credentials", "Verdicts._require_askable", never("self._shows_credentials(compiled)"))

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
published.without("a key is served under its own name", "_checked", never('jwk["kid"] != kid'))
signing_key = door("foundation.crypto.signing_key", "unit/authenticate/test_published_keys.py")
signing_key.without("a key's name follows from it", "checked_jwk", never('claimed["kid"] != thumbprint(members)'))
signing_key.without("no private member is served", "checked_jwk", never('claimed.keys() != {"use", "alg", "kid", *kind}'))

service_accounts = door("config.types.cloud_service_account", "unit/config/types/test_cloud_service_account.py")
service_accounts.without(
    "our assertion goes to a token endpoint by https",
    "_token_url",
    never("not is_confidential(url.scheme, url.host)"),
)
contradictions = door("config.routes.upstreams.credentials", "unit/config/routes/upstreams/test_credentials.py")
contradictions.without("a token has no spaces", "cluster_token", never("not _TOKEN.fullmatch(token)"))
contradictions.without(
    "a public route acts in nobody's name", "impersonation_needs_a_person", never("route.allow_public_unauthenticated_access")
)

passed_tokens = door("config.routes.provider_tokens", "unit/config/routes/test_provider_tokens.py")
RULE = "provider_tokens_are_guarded"
passed_tokens.without(
    "a provider's token goes where the route says so", RULE, replaced("if not route.pass_provider_tokens:\n    yield ...", "pass")
)
passed_tokens.without("a provider's token is for nobody on a public route", RULE, never("route.allow_public_unauthenticated_access"))
passed_tokens.without("a provider's token goes encrypted", RULE, never("plain and not may_go_unencrypted(route)"))
PROVIDER_TOKENS = "unit/authorize/upstream/test_provider_tokens.py"
provider_tokens = door("authorize.upstream.provider_tokens", PROVIDER_TOKENS)
provider_tokens.without("an upstream gets a fresh token", "HeldTokens.is_due", returns("False"))
provider_tokens.without("what is no token goes nowhere", "ProviderTokens._checked", never("not _IN_HEADERS.fullmatch(held.values[kind])"))
provider_tokens.without("a token of an old record is read again", "ProviderTokens.headers_for", never("known.identity is not identity"))

rewrite = door("proxy.rewriting.target", "unit/proxy/rewriting/test_target.py")
rewrite.without("a rewritten path stays where it belongs", "PathRewrite.apply", never("_DOT_SEGMENT.search(joined)"))
rewrite.without("a rewritten path is no host", "PathRewrite.apply", never('joined.startswith("//") and not path.startswith("//")'))
rewrite.without("our token is not forwarded", "without_token", always("len(kept) == len(pairs)"))

rewrite.without(
    "what an expression makes is canonical",
    "PathRewrite.apply",
    always("self.substitute is None"),
)
rewrite.without("an expression does not make a path without end", "substitution.substitute", never("len(made) > _LONGEST"))
rewrite.without(
    "a client names a host and nothing else",
    "_host",
    returns("named"),
)
rewrite.without("a client names one host", "HostRewrite.apply", never("len(values) > 1"))
rewriting = door("config.routes.rewrites", "unit/config/routes/test_rewrites.py")
rewriting.without("the Host is said in one way", "rewritten_once", replaced("[*rewrites, *others][1:] if rewrites else ()", "()"))

redirects = door("proxy.answers.redirects", "unit/proxy/answers/test_redirects.py")
redirects.without("a redirected path can't end its header", "_absolute", returns("path"))

upstream_tls = door("proxy.upstreams.tls", "unit/proxy/upstreams/test_tls.py")
upstream_tls.without("an upstream is shown the client certificate", "_context", never("certificate is not None and key is not None"))
client_tls = door("foundation.client_tls", "contract/test_private_authorities.py")
client_tls.without("a certificate that was issued is no authority, whatever Python", "verifying_context", replaced("~_SINCE_3_13", "-1"))
grpc_health = door("proxy.upstreams.grpc_health", "unit/proxy/upstreams/test_grpc_health.py")
grpc_health.without(
    "an upstream that says it does not serve is unhealthy", "_must_serve", never("answer.status != health_pb2.HealthCheckResponse.SERVING")
)
grpc_health.without("a health check verifies an upstream as requests do", "ask_by_grpc", passes(verify="False"))
cluster = door("proxy.upstreams.cluster", "unit/proxy/upstreams/test_health.py", "unit/proxy/upstreams/test_cluster.py")
cluster.without("an unhealthy upstream gets no traffic", "MemberState.is_available", returns("True"))
TROUBLED = "contract/test_upstreams_in_trouble.py"
statuses = door("proxy.upstreams.upstream_errors", TROUBLED)
statuses.without("a status that HTTP does not have is no answer", "bad_status", never("not 100 <= status <= 599"))
interims = door("proxy.upstreams.client", TROUBLED)
interims.without("interim answers have an end", "UpstreamExchange.response", replaced("MOST_INTERIM + 1", "10**9"))
descriptors = door("proxy.upstreams.upstream_errors", "unit/proxy/upstreams/test_upstream_errors.py")
descriptors.without(
    "no upstream is blamed for what we lack", "UpstreamErrors._reported", never("trouble is ConnectionFault.NO_DESCRIPTORS")
)
descriptors.without(
    "no byte of a malformed response is logged", "malformed", replaced("match['llhttp'] or match['aiohttp']", "error.message")
)

upstream = door("proxy.upstreams.client", "unit/proxy/upstreams/test_client.py")
request_head = door("proxy.upstreams.request", "unit/proxy/upstreams/test_request.py")
request_head.without(
    "a request head is not split", "request_head", always(r'head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == breaks')
)
upstream.without(
    "a connection that spoke unasked is not used again",
    "IdleConnections.take",
    always("not cast(UpstreamConnection, connection.protocol).should_close"),
)
upstream.without(
    "a request that may authenticate a connection takes a new one",
    "UpstreamClient.open",
    never("request.connection_use is ConnectionUse.OWN"),
)
upstream.without("a connection that may be authenticated is not used again", "UpstreamExchange.response", never("use is ConnectionUse.OWN"))
upstream.without(
    "a connection that a response calls authenticated is not used again",
    "UpstreamExchange.response",
    never("authenticates_connection(headers)"),
)
connection_auth = door("proxy.rewriting.connection_auth", "unit/proxy/rewriting/test_connection_auth.py")
connection_auth.without("NTLM is refused", "connection_use", never("_NTLM.search(value)"))
connection_auth.without("Negotiate has a connection of its own", "connection_use", never("_CONNECTION_BOUND.search(value)"))
connection_auth.without("Negotiate is refused over HTTP/2", "connection_use", never("is_http2"))
upstream.without(
    "a connection on which a body may come late is not used again", "UpstreamExchange.response", never("message.code in _BODILESS")
)
upstream.without("a connection that waited too long is not used again", "IdleConnections.take", always("now - since <= KEEPALIVE_TIMEOUT"))
upstream.without(
    "what said something is not taken for stale",
    "UpstreamExchange.response",
    never("self._protocol.has_spoken"),
)
upstream.without("little is held for a slow reader", "UpstreamExchange.begin", passes(read_bufsize="1 << 18"))
pieces = door("proxy.upstreams.connection", "unit/proxy/upstreams/test_client.py", "unit/proxy/upstreams/test_connection.py")
pieces.without("nothing that came unasked is part of an answer", "UpstreamConnection.data_received", never("self._is_idle"))
pieces.without(
    "less is held for a client that stops reading",
    "UpstreamConnection.asked_for_more",
    skips("self._read_up_to(AT_FIRST)"),
)
upstream.without("a request body is not shorter than it says", "UpstreamExchange.end", never("self._unsent"))
upstream.without(
    "a connection whose messages did not end is not used again",
    "UpstreamExchange.close",
    always("self._request_ended and self._is_answered and self._payload.at_eof()"),
)
upstream.without("an upstream that hangs keeps no connection", "UpstreamExchange.close", skips("transport.abort()"))

forwarding = door("proxy.forwarding.http", "unit/proxy/forwarding/test_http.py")
forwarding.without("what may not be done twice is sent once", "_ask", never("request.method not in IDEMPOTENT"))
forwarding.without("half a body is not sent twice", "_ask", never("watch.has_begun_upload"))
forwarding.without("a body goes with its request", "_ask", skips("watch.hold_upload()"))

own_paths = door("proxy.own_paths", "unit/proxy/test_own_paths.py")
own_paths.without("a host that nobody configured has no pages", "owner", never("not (is_authenticate_host or is_route_host)"))

pages = door("foundation.web.pages", "unit/foundation/web/test_pages.py")
pages.without("pages escape what they show", "_environment", passes(autoescape="False"))
pages.without("no script of an application's runs in a page of ours", "headers", replaced("hash_source(TIMES_SCRIPT)", "\"'self'\""))
pages.without(
    "a page has the style that its brand's hash names", "headers", replaced("[style, files.style]", "[NO_BRAND.style, files.style]")
)

forwarding_headers = door("proxy.rewriting.forwarding", "unit/proxy/rewriting/test_forwarding.py")
forwarding_headers.without("a malformed Forwarded counts for nothing", "_from_forwarded", always("_FORWARDED.fullmatch(value)"))
forwarding_headers.without("a port belongs to its scheme", "_port", replaced("{*_DEFAULT_PORTS.values()} - {default}", "()"))
forwarding_headers.without("a host is no list of parameters", "_forwarding", always("_PLAIN_HOST.fullmatch(host)"))
forwarding_headers.without(
    "a trusted peer's Forwarded counts alone", "_forwarding", replaced('given.keys() == {b"forwarded"}', 'b"forwarded" in given')
)
client_addresses = door("proxy.client_address", "unit/proxy/test_client_address.py")
client_addresses.without(
    "a client's address is believed of trusted peers", "last_untrusted", replaced("remaining and address in trusted", "remaining")
)

frames = door("proxy.forwarding.frames", "unit/proxy/forwarding/test_frames.py")
frames.without("a client masks its frames and a server does not", "FrameWalker._is_allowed", never("second & _MASKED != self._mask"))
frames.without(
    "a message is of a sensible size", "FrameWalker._is_allowed", never("length > self._frame_bytes or self._message > self._message_bytes")
)
frames.without(
    "the fragments of a message are in order", "FrameWalker._is_allowed", never("(opcode == _CONTINUATION) != self._is_fragmented")
)

handshake = door("proxy.upgrades.handshake", "unit/proxy/upgrades/test_handshake.py")
handshake.without(
    "a page of another origin opens no websocket", "require_known_origin", never("any((origin.lower() not in allowed for origin in given))")
)
handshake.without(
    "a 101 answers this handshake", "Handshake.accepted", never('answer.get(b"sec-websocket-accept") != [accept_key(self.key)]')
)
handshake.without("a subprotocol was offered", "Handshake.accepted", never("len(protocol) > 1 or not self.protocols.issuperset(protocol)"))

DATAPLANE = "unit/proxy/planes/test_embedded.py"
dataplane = door("proxy.verdicts", f"{DATAPLANE}::test_a_websocket_is_refused_where_the_route_carries_none")
dataplane.without(
    "a route carries websockets where it says so",
    "_offer",
    skips("if not route.allow_websockets: raise HandshakeRefused(...)"),
)
dataplane.without(
    "an offer that the route does not allow is refused by name",
    "_offer",
    skips("if not route.allow_spdy: raise HandshakeRefused(...)"),
    "unit/proxy/test_verdicts.py",
)

forwarding.without(
    "what is carried ends with its session", "forward", skips("handle.end = ..."), f"{DATAPLANE}::test_a_stream_ends_with_its_session"
)

refusals = door(
    "proxy.answers.refusals",
    f"{DATAPLANE}::test_a_script_reads_its_401_only_from_origins_we_know",
    "unit/proxy/answers/test_refusals.py",
)
refusals.without(
    "a foreign page can't read a refusal", "Refusals._cors", never("not (route_allows or self._authorize.is_route_origin(origin))")
)

DOORS = (
    connection_auth,
    statuses,
    interims,
    descriptors,
    bounded,
    packed,
    service,
    credentials,
    serverless,
    verdicts,
    published,
    signing_key,
    service_accounts,
    contradictions,
    passed_tokens,
    provider_tokens,
    frames,
    handshake,
    dataplane,
    refusals,
    names,
    request_headers,
    response_headers,
    cookies,
    identity_headers,
    header_values,
    told_headers,
    told_templates,
    asked_by_envoys,
    rewrite,
    rewriting,
    upstream_tls,
    client_tls,
    cluster,
    pieces,
    grpc_health,
    redirects,
    upstream,
    request_head,
    forwarding,
    own_paths,
    pages,
    client_addresses,
    forwarding_headers,
)
