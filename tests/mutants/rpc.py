"""Defences between services: who may call, who is believed, and what a client takes for true after a break."""

from tests.mutants.mutant import door

secret = door("foundation/rpc/shared_secret.py", "unit/foundation/rpc/test_shared_secret.py")
secret.without("a call's token is ours", "if hmac.compare_digest(match[3], _mac(call_key, method, words)))", "if True)")
secret.without(
    "a token is for its method", 'return to_text(hmac.digest(key, f"{method}\\n{words}"', 'return to_text(hmac.digest(key, f"{words}"'
)
secret.without(
    "a token expires", "if not 0 < int(match[1]) - self._clock() <= 2 * LIFETIME:", "if int(match[1]) - self._clock() > 2 * LIFETIME:"
)
secret.without(
    "no token is good for long", "if not 0 < int(match[1]) - self._clock() <= 2 * LIFETIME:", "if not 0 < int(match[1]) - self._clock():"
)
secret.without("of two tokens none counts", "values[0] if len(values) == 1 and", "values[0] if values and")
secret.without(
    "a server that proves nothing is not believed",
    '            raise NotProven(f"the server of {method} did not prove that it knows shared_secret")\n',
    "            return\n",
    "unit/foundation/rpc/test_shared_secret.py",
    "unit/foundation/rpc/test_channel.py",
)

server = door("foundation/rpc/server.py", "unit/foundation/rpc/test_server.py")
server.without("no method answers without a token", "            return _refusal(str(error))\n", "            proof = ''\n")
server.without(
    "only health and reflection are open",
    "if method.startswith(OPEN_SERVICES):",
    'if "NoSuch" in method or method.startswith(OPEN_SERVICES):',
)
server.without(
    "no method escapes the check by taking a stream", "if any(handler.request_streaming for handler in methods.values()):", "if False:"
)
server.without("callers are not told what went wrong inside", '"this call failed; the reason is in the server\'s log")', "str(error))")
server.without("two processes never share a port", '("grpc.so_reuseport", 0)', '("grpc.so_reuseport", 1)')
server.without("a request is of a bounded size", "LARGEST_REQUEST = 4 * 1024 * 1024", "LARGEST_REQUEST = 64 * 1024 * 1024")

channel = door("foundation/rpc/channel.py", "unit/foundation/rpc/test_channel.py")
channel.without("a failure is believed only from who proved himself", "        if code in _UNPROVEN_CODES:", "        if True:")
channel.without("what may have happened is not asked again", "if not may_repeat or error.code", "if error.code")
channel.without("no proxy variable leads a call astray", '("grpc.enable_http_proxy", 0)', '("grpc.enable_http_proxy", 1)')
channel.without(
    "a silent stream is a broken one",
    "                async with asyncio.timeout(silence):\n                    message",
    "                async with asyncio.timeout(60):\n                    message",
)

client = door("databroker/rpc/client.py", "unit/databroker/rpc/test_client.py")
client.without(
    "a restart is noticed", "position.server_version if isinstance(position, Position) else", "'' if isinstance(position, Position) else"
)

rpc = door("databroker/rpc/server.py", "unit/databroker/rpc/test_server.py")
rpc.without("another life's place is lost", "since = request.record_version if is_same else ANEW", "since = request.record_version")
rpc.without("who asked for no data gets none", "with_data=not request.without_data", "with_data=True")

ext_authz = door("authorize/rpc/ext_authz.py", "unit/authorize/rpc/test_ext_authz.py", "contract/test_authorizers.py")
ext_authz.without("a decision is on the route that will be used", "    if route_id and route_id != ours:", "    if False:")
ext_authz.without(
    "extensions of our own proxies count from nobody else",
    "if any(name == TOKEN for name, _ in context.invocation_metadata() or ()):",
    "if True:",
)
ext_authz.without(
    "an Envoy forwards what was judged",
    '        require_plain(attributes.raw(http.path.partition("?")[0]), request.path)\n',
    "",
)

told = door("authorize/rpc/attributes.py", "unit/authorize/rpc/test_attributes.py")
told.without(
    "a certificate counts for the name of its connection", "    if server_name and canonical_host(", "    if False and canonical_host("
)

authorizer = door("authorize/rpc/client.py", "unit/authorize/rpc/test_client.py")
authorizer.without("an answer about another route is none", 'if facts.get("route") != route.id or outcome', "if outcome")
authorizer.without("a permission without a reason is none", " or (outcome is Outcome.ALLOWED and not trace):", ":")

words = door("proxy/planes/ext_authz.py", "unit/proxy/planes/test_ext_authz.py", "unit/authorize/rpc/test_ext_authz.py")
words.without("an Envoy takes claimed identities away", "[name for name in not_the_envoys if name not in told]", "[]")
words.without(
    "an Envoy's client hides behind no forwarded address",
    '            replaced.append((b"x-forwarded-for", asked.client_address.encode()))\n',
    "            pass\n",
)
words.without("an Envoy is told what it may carry itself", "self._verdicts.of(judged, Asker.ENVOY)", "self._verdicts.of(judged)")
words.without("an answer is remembered with whom it names", "verdict.route.id, verdict.told,", "verdict.route.id, (),")
words.without("an answer is remembered with what it takes away", "tuple(sorted(removed))", "()")
words.without("a request without one reading is refused", "            if asked.unread is not None:\n", "            if False:\n")

envoys = door("gateproject/process/rpc_services.py", "unit/authorize/rpc/test_ext_authz.py")
envoys.without("an Envoy's token is for one method", "if method != ext_authz_service.CHECK or len(given) != 1:", "if len(given) != 1:")

behind = door("databroker/replica.py", "unit/databroker/test_replica.py")
behind.without(
    "nothing older decides than what was seen", "            self._start_over(is_following=self._is_following)\n", "            pass\n"
)

DOORS = (secret, server, channel, client, rpc, ext_authz, told, authorizer, words, envoys, behind)
