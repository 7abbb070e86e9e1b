"""Defences on the way to the upstream and back: what only we may say, what may not be split, which connection is used again."""

from tests.mutants.mutant import door

names = door("proxy/rewriting/headers.py", "unit/proxy/rewriting/test_headers.py")
names.without("names are compared folded", "return name.translate(_FOLD)", "return name.lower()")
names.without(
    "names without their dashes are ours, too",
    "return squeezed in _DASHLESS_NAMES or squeezed in _STEERING_NAMES or squeezed.startswith(_DASHLESS_PREFIXES)",
    "return False",
)
names.without("headers that steer an application are dropped", " or squeezed in _STEERING_NAMES or", " or")
names.without("identity headers of clients are dropped", " or is_internal_header(folded):\n        return DROP", ":\n        return DROP")
names.without(
    "hop-by-hop headers are dropped",
    "if folded in HOP_BY_HOP or is_internal_header(folded):\n        return DROP",
    "if is_internal_header(folded):\n        return DROP",
)
names.without("our cookies stay here", "return cookies.without([cookie], self.is_our_cookie)", "return [cookie]")
names.without("our credentials stay here", "elif kind != AUTHORIZATION or _OUR_CREDENTIALS.match(pair[1]) is None:", "else:")
names.without("Connection can't take Cookie or Authorization away", " or _known(pair[0])[0] in (COOKIE, AUTHORIZATION)]", "]")
names.without(
    "what Connection names goes no further",
    "        if options - _CONNECTION_STATES:\n            kept = _without_named(kept, options)\n",
    "",
)
names.without(
    "forwarding headers are a trusted peer's", "forwarded if forwarded and downstream.address in self.trusted else []", "forwarded"
)
names.without("a route's headers can't say who somebody is", "if _may_be_set(fold(pair[0])) and", "if")
names.without("a response header is not split", "if _UNSAFE_VALUE.search(value):", "if False:")
names.without("an upstream can't set our cookies", ' or (name == b"set-cookie" and self._sets_ours(value)):', ":")

names.without(
    "an upstream's names of headers fill no memory",
    "@bounded_lru_cache(4096, longest=LONGEST_REMEMBERED)\ndef _response_name",
    "@bounded_lru_cache(4096, longest=10**9)\ndef _response_name",
)

bounded = door("foundation/bounded_cache.py", "unit/foundation/test_bounded_cache.py")
bounded.without(
    "what is long is not remembered", "cached(argument) if len(argument) <= longest else function(argument)", "cached(argument)"
)
bounded.without(
    "of several the sum counts", "cached(*arguments) if size(*arguments) <= longest else function(*arguments)", "cached(*arguments)"
)
bounded.without("a cache is bounded in bytes", " or self.bytes > self._most_bytes:", ":")
bounded.without("a large value pushes out no others", "if weight * 100 > self._most_bytes:", "if False:")

packed = door("databroker/record_cache.py", "unit/databroker/test_record_cache.py")
packed.without("records are bounded in bytes", " or self._bytes > MOST_BYTES:", ":")
packed.without("large records are not kept open", "if len(packed) > LARGE:", "if False:")

cookies = door("foundation/crypto/cookies.py", "unit/foundation/crypto/test_cookies.py")
cookies.without("our cookies are ours in any case", "folded, own = name.lower()", "folded, own = name")
cookies.without("the companions are ours", ' or read.startswith(own + b"_")', "")
cookies.without(
    "cookies named with a prefix are ours",
    "(folded, folded.removeprefix(HOST_PREFIX.lower().encode()))",
    "(folded.removeprefix(HOST_PREFIX.lower().encode()),)",
)
cookies.without(
    "cookies are hidden from scripts",
    "    if http_only:\n",
    "    if False:\n",
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)
cookies.without(
    "cookies are not sent across sites",
    ', "SameSite=Lax"]',
    "]",
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)

identity_headers = door("authorize/upstream/identity_headers.py", "unit/authorize/upstream/test_identity_headers.py")
identity_headers.without("identity is passed where the route says so", "if not route.route.pass_identity_headers:", "if False:")
identity_headers.without(
    "what was signed of old facts is not used again", "cached is not None and cached[0] is identity and", "cached is not None and"
)
identity_headers.without("an assertion is for one host", 'else "", host_port, route.id)', 'else "", "", route.id)')
identity_headers.without("a claim can't end its header", "if text.isascii() and text.isprintable():", "if text.isascii():")
identity_headers.without("one group can't read as two", '.replace(b",", b"%2C")', "")
identity_headers.without("no address of another issuer is told as ours", "identity is not None and identity.is_foreign:", "False:")
identity_headers.without("upstreams get verified addresses", '(identity.email if identity.rule_email else "")', "identity.email")

identity_headers.without(
    "a filter keeps groups from upstreams", "groups if told is None else tuple(group for group in groups if group in told)", "groups"
)

CREDENTIALS = "unit/proxy/test_upstream_credentials.py"
names.without(
    "what stands in for our Authorization is ours",
    "AUTHORIZING if shows_credentials(route, options) else frozenset()",
    "frozenset()",
    CREDENTIALS,
)
names.without("a route's own headers don't stand in for our Authorization", " and fold(pair[0]) not in ours),", "),", CREDENTIALS)

service = door("authorize/service.py", CREDENTIALS)
service.without(
    "a preflight shows no credentials of ours",
    "if route is None or not check.decision.is_allowed or check.decision.is_preflight:",
    "if route is None or not check.decision.is_allowed:",
)

credentials = door("authorize/upstream/credentials.py", "unit/authorize/upstream/test_credentials.py")
credentials.without(
    "a cluster is asked in somebody's name",
    'raise NobodyToActFor("nobody is signed in whom the cluster could be told")',
    'return ((b"authorization", authorization),)',
    CREDENTIALS,
)
credentials.without("nobody gets a name that the cluster keeps for itself", " and not name.lower().startswith(RESERVED)", "")
credentials.without("a name can't end its header", "name.isascii() and name.isprintable()", "name.isascii()")
credentials.without("a mailbox does not pass for a user id", ' and "/" not in email', "")
credentials.without("what was made of old facts is not used again", "cached is not None and cached[0] is identity", "cached is not None")

serverless = door("authorize/upstream/cloud_serverless.py", "unit/authorize/upstream/test_cloud_serverless.py")
serverless.without("a token is for this upstream", 'if claims.get("aud") != audience:', "if False:")
serverless.without("a token is a JWT", "if not _TOKEN.fullmatch(token):", "if False:")
serverless.without("a token that ends is not used", "now < held.expires - UNUSED_BEFORE_EXPIRY", "True")
serverless.without("a token has time left", "expires - UNUSED_BEFORE_EXPIRY <= now:", "False:")
serverless.without(
    "without a token nothing is sent",
    "        if token is None:\n            raise CredentialsError",
    "        if False:\n            raise CredentialsError",
)
serverless.without(
    "a metadata server says that it is one", 'if answer.headers.get("metadata-flavor") != METADATA_FLAVOR["Metadata-Flavor"]:', "if False:"
)
serverless.without("a failure is not repeated at once", "return now < self._failed.get(audience, 0.0) + FAILURE_SECONDS", "return False")
serverless.without("many requests fetch one token", "        if task is None:\n", "        if True:\n")

verdicts = door("proxy/verdict.py", "unit/proxy/test_verdict.py", "unit/authorize/rpc/test_ext_authz.py")
verdicts.without("nobody else carries what shows our credentials", "elif self._shows_credentials(compiled):", "elif False:")

published = door("authenticate/published_keys.py", "unit/authenticate/test_published_keys.py")
published.without("a generated key is nobody's business", "while self._key.is_configured:", "while True:")
published.without("a key is served under its own name", 'if jwk is None or jwk["kid"] != kid or', "if jwk is None or")
signing_key = door("foundation/crypto/signing_key.py", "unit/authenticate/test_published_keys.py")
signing_key.without("a key's name follows from it", 'if claimed["kid"] != thumbprint(members):', "if False:")
signing_key.without("no private member is served", ' or claimed.keys() != {"use", "alg", "kid", *kind}', "")

service_accounts = door("config/types/cloud_service_account.py", "unit/config/types/test_cloud_service_account.py")
service_accounts.without(
    "our assertion goes to a token endpoint by https",
    "if not is_confidential(url.scheme, url.host):",
    "if False:",
)
contradictions = door("config/routes/upstream_credentials.py", "unit/config/routes/test_upstream_credentials.py")
contradictions.without("a token has no spaces", "    if not _TOKEN.fullmatch(token):\n", "    if False:\n")
contradictions.without("a public route acts in nobody's name", "    if route.allow_public_unauthenticated_access:\n", "    if False:\n")

rewrite = door("proxy/rewriting/target.py", "unit/proxy/rewriting/test_target.py")
rewrite.without("a rewritten path stays where it belongs", "_DOT_SEGMENT.search(joined) or ", "")
rewrite.without("a rewritten path is no host", 'if joined.startswith("//") and not path.startswith("//"):', "if False:")
rewrite.without("our token is not forwarded", "    return query if len(kept)", "    return query if True or len(kept)")

rewrite.without(
    "what an expression makes is canonical",
    'return joined if self.substitute is None else canonical_path(joined.encode("ascii"))',
    "return joined",
)
rewrite.without("an expression does not make a path without end", "if len(made) > _LONGEST:", "if False:")
rewrite.without(
    "a client names a host and nothing else",
    "    host, port = canonical_host(named)\n",
    "    return named\n    host, port = canonical_host(named)\n",
)
rewrite.without("a client names one host", "if len(values) > 1:", "if False:")
rewriting = door("config/routes/rewrites.py", "unit/config/routes/test_rewrites.py")
rewriting.without("the Host is said in one way", "for key in [*rewrites, *others][1:] if rewrites else ():", "for key in ():")

redirects = door("proxy/answers/redirects.py", "unit/proxy/answers/test_redirects.py")
redirects.without(
    "a redirected path can't end its header", 'return quote(path if path.startswith("/") else "/" + path, safe=_PATH_SAFE)', "return path"
)

upstream_tls = door("proxy/upstreams/tls.py", "unit/proxy/upstreams/test_tls.py")
upstream_tls.without(
    "an upstream is shown the client certificate", "    if certificate is not None and key is not None:\n", "    if False:\n"
)
grpc_health = door("proxy/upstreams/grpc_health.py", "unit/proxy/upstreams/test_grpc_health.py")
grpc_health.without(
    "an upstream that says it does not serve is unhealthy", "if answer.status != health_pb2.HealthCheckResponse.SERVING:", "if False:"
)
grpc_health.without("a health check verifies an upstream as requests do", "verify=True if context is None else context", "verify=False")
cluster = door("proxy/upstreams/cluster.py", "unit/proxy/upstreams/test_health.py", "unit/proxy/upstreams/test_cluster.py")
cluster.without("an unhealthy upstream gets no traffic", "return not self.failing and now >= self.outlier.ejected_until", "return True")
TROUBLED = "contract/test_upstreams_in_trouble.py"
statuses = door("proxy/upstreams/upstream_errors.py", TROUBLED)
statuses.without("a status that HTTP does not have is no answer", "if not 100 <= status <= 599:", "if False:")
interims = door("proxy/upstreams/client.py", TROUBLED)
interims.without("interim answers have an end", "for _ in range(MOST_INTERIM + 1):", "for _ in range(10**9):")
by_envoy = door("proxy/envoy/carried_request.py", TROUBLED)
by_envoy.without("Envoy's upstreams answer as HTTP says, too", "if bad := bad_status(status, is_upgrade=False):", 'if bad := "":')
descriptors = door("proxy/upstreams/upstream_errors.py", "unit/proxy/upstreams/test_upstream_errors.py")
descriptors.without("no upstream is blamed for what we lack", "if trouble is ConnectionFault.NO_DESCRIPTORS:", "if False:")

upstream = door("proxy/upstreams/client.py", "unit/proxy/upstreams/test_client.py")
request_head = door("proxy/upstreams/request.py", "unit/proxy/upstreams/test_request.py")
request_head.without(
    "a request head is not split", '(head.count(b"\\r\\n") == head.count(b"\\n") == head.count(b"\\r") == len(parts))', "True"
)
upstream.without(
    "a connection that spoke unasked is not used again",
    "while (protocol := cast(UpstreamConnection, connection.protocol)).should_close or (",
    "while (protocol := cast(UpstreamConnection, connection.protocol)) and (",
)
upstream.without(
    "what said something is not taken for stale",
    "self._protocol.requests > 1 and not self._protocol.has_spoken",
    "self._protocol.requests > 1",
)
upstream.without("little is held for a slow reader", "read_bufsize=HELD_AT_FIRST // 2", "read_bufsize=1 << 18")
pieces = door("proxy/upstreams/connection.py", "unit/proxy/upstreams/test_client.py", "unit/proxy/upstreams/test_connection.py")
pieces.without(
    "less is held for a client that stops reading",
    "            self._taken = 0\n            self._read_up_to(AT_FIRST)\n",
    "            self._taken = 0\n",
)
upstream.without("a request body is not shorter than it says", "        if self._unsent:\n", "        if False:\n")
upstream.without(
    "a connection whose messages did not end is not used again",
    "self._request_ended and self._is_answered and self._payload.at_eof()",
    "True",
)
upstream.without("an upstream that hangs keeps no connection", "transport.abort()", "pass")

forwarding = door("proxy/forwarding/http.py", "unit/proxy/forwarding/test_http.py")
forwarding.without("what may not be done twice is sent once", "request.method not in IDEMPOTENT or", "False or")
forwarding.without(
    "half a body is not sent twice", "request.method not in IDEMPOTENT or watch.has_begun_upload:", "request.method not in IDEMPOTENT:"
)
forwarding.without("a body goes with its request", "            watch.hold_upload()\n", "            pass\n")
forwarding.without("a request has one framing", "        if lengths:\n", "        if False:\n")

own_paths = door("proxy/own_paths.py", "unit/proxy/test_own_paths.py")
own_paths.without("a host that nobody configured has no pages", "if not (is_authenticate_host or is_route_host):", "if False:")

pages = door("foundation/pages.py", "unit/foundation/test_pages.py")
pages.without("pages escape what they show", "autoescape=True", "autoescape=False")

incoming = door("proxy/incoming.py", "unit/proxy/test_incoming.py")
incoming.without("a client's address is believed of trusted peers", "while hops and address in trusted:", "while hops:")

frames = door("proxy/forwarding/frames.py", "unit/proxy/forwarding/test_frames.py")
frames.without("a client masks its frames and a server does not", "if second & _MASKED != self._mask:", "if False:")
frames.without("a message is of a sensible size", "if length > self._frame_bytes or self._message > self._message_bytes:", "if False:")
frames.without("the fragments of a message are in order", "elif (opcode == _CONTINUATION) != self._is_fragmented:", "elif False:")

handshake = door("proxy/forwarding/handshake.py", "unit/proxy/forwarding/test_handshake.py")
handshake.without("a page of another origin opens no websocket", "if any(origin.lower() not in allowed for origin in given):", "if False:")
handshake.without("a 101 answers this handshake", 'if answer.get(b"sec-websocket-accept") != [accept_key(self.key)]:', "if False:")
handshake.without("a subprotocol was offered", "if len(protocol) > 1 or not self.protocols.issuperset(protocol):", "if False:")

DATAPLANE = "unit/proxy/planes/test_embedded.py"
dataplane = door("proxy/verdict.py", f"{DATAPLANE}::test_a_websocket_is_refused_where_the_route_carries_none")
dataplane.without(
    "a route carries websockets where it says so",
    "    if not route.allow_websockets:\n        raise HandshakeRefused",
    "    if False:\n        raise HandshakeRefused",
)

forwarding.without(
    "what is carried ends with its session", "    handle.end = watch.revoke\n", "", f"{DATAPLANE}::test_a_stream_ends_with_its_session"
)

refusals = door(
    "proxy/answers/refusals.py",
    f"{DATAPLANE}::test_a_script_reads_its_401_only_from_origins_we_know",
    "unit/proxy/answers/test_refusals.py",
)
refusals.without("a foreign page can't read a refusal", "if not (route_allows or self._authorize.is_route_origin(origin)):", "if False:")

DOORS = (
    statuses,
    interims,
    by_envoy,
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
    frames,
    handshake,
    dataplane,
    refusals,
    names,
    cookies,
    identity_headers,
    rewrite,
    rewriting,
    upstream_tls,
    cluster,
    pieces,
    grpc_health,
    redirects,
    upstream,
    request_head,
    forwarding,
    own_paths,
    pages,
    incoming,
)
