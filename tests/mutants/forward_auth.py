"""Defences of forward auth: one URL from one source, in one reading; and no 2xx but for a permission."""

from tests.mutants.mutant import door
from tests.mutants.operations import in_text, lacks, replaced

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
    "original_request",
    replaced("_agreed([_host_and_port(host, scheme) for host in hosts], 'host')", "hosts[0]"),
)
original.without("an encoded URL ends where it ends", "_uri_parameter", replaced("_WHOLLY_ENCODED.fullmatch", "_WHOLLY_ENCODED.match"))
original.without("a user name is no part of a URL", "_URL", in_text(b"([", b"(?:[^/?#@\\\\]+@)?(["))

forward_auth = door("proxy.planes.forward_auth", "unit/proxy/planes/test_forward_auth.py")
forward_auth.without(
    "an odd spelling of what proxies say does not pass", "_refuse_what_is_not_the_clients", replaced("name.lower()", "folded")
)
forward_auth.without(
    "a front proxy sends gate what is listed, and nothing else",
    "_refuse_what_is_not_the_clients",
    replaced("name.lower() in FRONT_PROXY_NAMES", 'name.lower() in FRONT_PROXY_NAMES or name.startswith(b"x-forwarded-")'),
)
forward_auth.without(
    "an absent claim replaces the client's",
    "ForwardAuth._permission",
    replaced("[(name, told.get(name, b'')) for name in names]", "list(carry.told)"),
)
forward_auth.without(
    "no permission outlives its session", "ForwardAuth._caching", replaced("min(seconds, identity.expires - judged.now)", "seconds")
)

DOORS = (original, forward_auth)
