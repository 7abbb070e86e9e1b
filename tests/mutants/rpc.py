"""Defences between services: who may call, who is believed, and what a client takes for true after a break."""

from tests.mutants.mutant import door

secret = door("gateproject/rpc/shared_secret.py", "unit/gateproject/rpc/test_shared_secret.py")
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
secret.without("a proof is no token", 'derive_keys(secrets, "grpc proof"), strict', 'derive_keys(secrets, "grpc call"), strict')
secret.without(
    "a server that proves nothing is not believed",
    '            raise NotProven(f"the server of {method} did not prove that it knows shared_secret")\n',
    "            return\n",
    "unit/gateproject/rpc/test_shared_secret.py",
    "unit/gateproject/rpc/test_channel.py",
)

server = door("gateproject/rpc/server.py", "unit/gateproject/rpc/test_server.py")
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

channel = door("gateproject/rpc/channel.py", "unit/gateproject/rpc/test_channel.py")
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

DOORS = (secret, server, channel, client, rpc)
