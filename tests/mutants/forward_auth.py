"""Defences of forward auth: one URL from one source, in one reading; and no 2xx but for a permission."""

from tests.mutants.mutant import door

original = door("proxy/planes/original_request.py", "unit/proxy/planes/test_original_request.py")
original.without("headers count only from trusted peers", "list(_told(incoming)) if is_trusted else []", "list(_told(incoming))")
original.without("sources that differ are refused", "if len(distinct) > 1:", "if False:")
original.without(
    "no header is left out of the comparison",
    'TARGET_HEADERS = frozenset((b"x-forwarded-uri", b"x-original-uri"))',
    'TARGET_HEADERS = frozenset((b"x-forwarded-uri",))',
)
original.without(
    "both methods must agree",
    'METHOD_HEADERS = frozenset((b"x-forwarded-method", b"x-original-method"))',
    'METHOD_HEADERS = frozenset((b"x-forwarded-method",))',
)
original.without("hosts that differ are refused", '_agreed([_host_and_port(host, scheme) for host in hosts], "host")', "hosts[0]")
original.without(
    "a path is forwarded as it was judged",
    "    require_plain(raw_path, request.path)\n",
    "",
)
original.without("a URL encoded by halves is refused", '_ENCODED_BY_HALVES.search(value.partition(b"?")[0])', "False")
original.without("the query is uri and nothing else", 'if name != b"uri":', "if False:")
original.without("an encoded URL ends where it ends", "if _WHOLLY_ENCODED.fullmatch(value):", "if _WHOLLY_ENCODED.match(value):")
original.without("a user name is no part of a URL", r"([^/?#@\\]+)", r"(?:[^/?#@\\]+@)?([^/?#@\\]+)")
original.without("the other scheme's port is nobody's", "if port in DEFAULT_PORTS.values() and port != DEFAULT_PORTS[scheme]:", "if False:")
original.without("a path that was cut before is refused", 'if name == b"x-forwarded-prefix" and value:', "if False:")

forward_auth = door("proxy/planes/forward_auth.py", "unit/proxy/planes/test_forward_auth.py")
forward_auth.without("no refusal in gRPC's form is a permission", 'if name != b"content-type"}', "}")
forward_auth.without("no page of ours is a permission", "if self.status < 300:", "if False:")
forward_auth.without("a claimed identity does not pass", "        if is_identity_header(folded):\n", "        if False:\n")
forward_auth.without("what steers an application does not pass", "        if is_steering_header(folded) and", "        if False and")
forward_auth.without(
    "an odd spelling of what proxies say does not pass", "if is_internal_header(folded) and name.lower() != folded:", "if False:"
)
forward_auth.without("a header that was left out is looked at, too", ', *incoming.scope.get("gate.ignored_headers", ())]', "]")
forward_auth.without(
    "an unknown host is refused before our pages",
    "if not self._authorize.knows_host(request.host, request.port):",
    "if False:",
    "unit/proxy/planes/test_forward_auth.py::test_our_pages_exist_at_route_hosts_only",
)
forward_auth.without(
    "the scheme is the route's", "if original.scheme != self._authorize.scheme_of(request.host, request.port):", "if False:"
)
forward_auth.without(
    "verify permits no page of ours", 'if asker is Asker.STATUS_ONLY or original.request.method not in ("", "GET"):', "if False:"
)
forward_auth.without(
    "an absent claim replaces the client's",
    'headers: Headers = [(name, told.get(name, b"")) for name in self._authorize.identity_header_names]',
    "headers: Headers = list(carry.told)",
)
forward_auth.without("no permission outlives its session", "min(seconds, identity.expires - judged.now)", "seconds")

views = door("proxy/sign_in/views.py", "unit/proxy/sign_in/test_views.py")
views.without("forward auth's sign-in leads to this host only", "if target.origin != proxy.origin_of(incoming.request):", "if False:")
views.without("circles behind a front proxy end", "if proxy.loops.is_looping(incoming.cookies, host_port, now):", "if False:")

elsewhere = door("proxy/verdict.py", "unit/proxy/test_verdict.py")
elsewhere.without("a redirect is no permission", "if compiled.route.redirect is not None:", "if False:")
elsewhere.without("verify permits no redirect route", "                if asker is Asker.STATUS_ONLY:\n", "                if False:\n")
elsewhere.without("verify redirects nobody", "asker is not Asker.STATUS_ONLY and incoming", "incoming")
elsewhere.without(
    "a websocket needs a route that carries them",
    "            if not route.allow_websockets:\n                raise CarriedElsewhere",
    "            if False:\n                raise CarriedElsewhere",
)
elsewhere.without(
    "a websocket's origin is known",
    'require_known_origin([value for name, value in headers if name == b"origin"], own_origin, route.websocket_origins)',
    "pass",
)
elsewhere.without("no application reads what is for our own pages", "if is_own_page(request.path):", "if False:")

own_paths = door("proxy/own_paths.py", "unit/proxy/test_own_paths.py")
own_paths.without("the forward-auth host has no other pages", "    if is_forward_auth_host:\n        return Owner.FORWARD_AUTH\n", "")

DOORS = (original, forward_auth, views, elsewhere, own_paths)
