"""Defences between services: who may call, who is believed, and what a client takes for true after a break."""

from tests.mutants.mutant import door
from tests.mutants.operations import constant, replaced

secret = door("foundation.rpc.shared_secret", "unit/foundation/rpc/test_shared_secret.py")
secret.without("a token is for its method", "_mac", replaced(r'f"{method}\n{payload}"', 'f"{words}"'))
secret.without(
    "a token expires",
    "SharedSecret.verify_token",
    replaced("not 0 < int(match[1]) - self._clock() <= 2 * LIFETIME", "int(match[1]) - self._clock() > 2 * LIFETIME"),
)
secret.without(
    "no token is good for long",
    "SharedSecret.verify_token",
    replaced("0 < int(match[1]) - self._clock() <= 2 * LIFETIME", "0 < int(match[1]) - self._clock()"),
)
secret.without("of two tokens none counts", "_single_value", replaced("len(values) == 1", "values"))
secret.without(
    "a server that proves nothing is not believed",
    "SharedSecret.verify_proof",
    replaced("raise AuthenticationFailed(...)", "return"),
    "unit/foundation/rpc/test_shared_secret.py",
    "unit/foundation/rpc/test_rpc_channel.py",
)

server = door("foundation.rpc.rpc_server", "unit/foundation/rpc/test_rpc_server.py")
server.without(
    "no method answers without a token", "AuthInterceptor.intercept_service", replaced("return rejecting_handler(str(error))", "proof = ''")
)
server.without(
    "only health and reflection are open",
    "AuthInterceptor.intercept_service",
    replaced("method.startswith(PUBLIC_SERVICES)", '"NoSuch" in method or method.startswith(OPEN_SERVICES)'),
)
server.without("callers do not get internal errors", "_abort", replaced('"internal error; see the server\'s log"', "str(error)"))
server.without("two processes never share a port", "_server_options", replaced('("grpc.so_reuseport", 0)', '("grpc.so_reuseport", 1)'))
UNPROVEN = "unit/foundation/rpc/test_unproven_calls.py"
server.without(
    "what is not read yet is not taken", "_server_options", replaced('("grpc.http2.bdp_probe", 0)', '("grpc.http2.bdp_probe", 1)'), UNPROVEN
)
server.without(
    "no message is decompressed",
    "_server_options",
    replaced('("grpc.compression_enabled_algorithms_bitset", 1)', '("grpc.compression_enabled_algorithms_bitset", 7)'),
    UNPROVEN,
)
server.without("a request is of a bounded size", "MAX_REQUEST_BYTES", constant("64 * 1024 * 1024"))

channel = door("foundation.rpc.rpc_channel", "unit/foundation/rpc/test_rpc_channel.py")
channel.without(
    "no proxy variable leads a call astray", "channel_options", replaced('("grpc.enable_http_proxy", 0)', '("grpc.enable_http_proxy", 1)')
)
channel.without(
    "a silent stream is a broken one",
    "RpcChannel.stream",
    replaced(
        "async with asyncio.timeout(idle_timeout):\n    message = await call.read()",
        "async with asyncio.timeout(60):\n    message = await call.read()",
    ),
)

client = door("databroker.rpc.remote_broker", "unit/databroker/rpc/test_remote_broker.py")
client.without("a restart is noticed", "RemoteBroker._sync", replaced("position.server_version", "''"))

ext_authz = door("proxy.planes.ext_authz", "unit/proxy/planes/test_ext_authz.py", "unit/authorize/rpc/test_ext_authz.py")
ext_authz.without(
    "an Envoy takes claimed identities away",
    "ExtAuthzResponder._header_mutations",
    replaced("[name for name in untrusted if name not in identity_names]", "[]"),
)
ext_authz.without(
    "Envoy learns which requests it may forward",
    "ExtAuthzResponder._verdict",
    replaced("self._pipeline.verdicts.build(decision, Enforcer.EXT_AUTHZ)", "self._pipeline.verdicts.build(decision)"),
)
ext_authz.without("a response is cached with its user", "ExtAuthzResponder._verdict", replaced("verdict.identity_headers", "()"))
ext_authz.without(
    "an answer is remembered with what it takes away", "ExtAuthzResponder._header_mutations", replaced("tuple(sorted(removed))", "()")
)

envoys = door("gateproject.process.rpc_services", "unit/authorize/rpc/test_ext_authz.py")
envoys.without(
    "a wrong token is not saved by one in the question",
    "RpcServices._authenticate_envoy",
    replaced("not credentials", "len(credentials) != 2"),
)
envoys.without("a token in a check must be configured", "RpcServices._is_token", replaced("any(...)", "bool(given)"))
