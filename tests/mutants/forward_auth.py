"""Defences of forward auth: one URL from one source, in one reading; and no 2xx but for a permission."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, replaced, skips

original = door("proxy.planes.original_request", "unit/proxy/planes/test_original_request.py")
original.without("sources that differ are refused", "_agreed", never("len(distinct) > 1"))
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
original.without(
    "a path is forwarded as it was judged",
    "_original",
    skips("require_plain(raw_path, request.path)"),
)
original.without("a URL encoded by halves is refused", "_uri_parameter", never('_ENCODED_BY_HALVES.search(value.partition(b"?")[0])'))
original.without("the query is uri and nothing else", "_uri_parameter", never('name != b"uri"'))
original.without("an encoded URL ends where it ends", "_uri_parameter", replaced("_WHOLLY_ENCODED.fullmatch", "_WHOLLY_ENCODED.match"))
original.without("a user name is no part of a URL", "_URL", in_text(b"([", b"(?:[^/?#@\\\\]+@)?(["))
original.without(
    "the other scheme's port is nobody's", "_original", never("port in DEFAULT_PORTS.values() and port != DEFAULT_PORTS[scheme]")
)
original.without("a path that was cut before is refused", "_told", never('name == b"x-forwarded-prefix" and value'))

forward_auth = door("proxy.planes.forward_auth", "unit/proxy/planes/test_forward_auth.py")
forward_auth.without("no refusal in gRPC's form is a permission", "ForwardAuth.__call__", always('name != b"content-type"'))
forward_auth.without("no page of ours is a permission", "_NeverSuccess.__call__", never("self.status < 300"))
forward_auth.without("a claimed identity does not pass", "_refuse_what_is_not_the_clients", never("is_identity_header(folded)"))
forward_auth.without("what steers an application does not pass", "_refuse_what_is_not_the_clients", never("is_steering_header(folded)"))
forward_auth.without(
    "what only proxies set does not pass",
    "_refuse_what_is_not_the_clients",
    always("name.lower() in FRONT_PROXY_NAMES or not is_internal_header(folded)"),
)
forward_auth.without(
    "an odd spelling of what proxies say does not pass", "_refuse_what_is_not_the_clients", replaced("name.lower()", "folded")
)
forward_auth.without(
    "a front proxy sends gate what is listed, and nothing else",
    "_refuse_what_is_not_the_clients",
    replaced("name.lower() in FRONT_PROXY_NAMES", 'name.lower() in FRONT_PROXY_NAMES or name.startswith(b"x-forwarded-")'),
)
forward_auth.without(
    "an unknown host is refused before our pages",
    "ForwardAuth._original",
    never("not self._authorize.knows_host(request.host, request.port)"),
    "unit/proxy/planes/test_forward_auth.py::test_our_pages_exist_at_route_hosts_only",
)
forward_auth.without(
    "the scheme is the route's", "ForwardAuth._original", never("original.scheme != self._authorize.scheme_of(request.host, request.port)")
)
forward_auth.without(
    "verify permits no page of ours",
    "ForwardAuth._own_page",
    never('asker is Asker.STATUS_ONLY or original.request.method not in ("", "GET")'),
)
forward_auth.without(
    "an absent claim replaces the client's",
    "ForwardAuth._permission",
    replaced("[(name, told.get(name, b'')) for name in names]", "list(carry.told)"),
)
forward_auth.without(
    "no permission outlives its session", "ForwardAuth._caching", replaced("min(seconds, identity.expires - judged.now)", "seconds")
)

views = door("proxy.views.route_host", "unit/proxy/views/test_route_host.py")
views.without("forward auth's sign-in leads to this host only", "sign_in", never("target.origin != proxy.origin_of(incoming.request)"))
views.without("circles behind a front proxy end", "sign_in", never("proxy.loops.is_looping(incoming.cookies, host_port, now)"))

elsewhere = door("proxy.verdicts", "unit/proxy/test_verdicts.py")
elsewhere.without("a redirect is no permission", "Verdicts.of", never("compiled.route.redirect is not None"))
elsewhere.without("verify permits no redirect route", "Verdicts.of", never("asker is Asker.STATUS_ONLY"))
elsewhere.without("verify redirects nobody", "_may_be_redirected", always("asker is not Asker.STATUS_ONLY"))
elsewhere.without("only a navigation is redirected", "_may_be_redirected", always("incoming.is_navigation"))
elsewhere.without(
    "a websocket needs a route that carries them",
    "_offer",
    skips("if not route.allow_websockets: raise CarriedElsewhere(...)"),
)
elsewhere.without(
    "a websocket's origin is known",
    "_offer",
    skips("require_known_origin(...)"),
)
elsewhere.without("no application reads what is for our own pages", "Verdicts._require_askable", never("is_own_page(request.path)"))

own_paths = door("proxy.own_paths", "unit/proxy/test_own_paths.py")
own_paths.without(
    "an application may have health paths of its own",
    "owner",
    replaced("path in HEALTH_PATHS and has_health_paths", "path in HEALTH_PATHS"),
)
own_paths.without("the forward-auth host has no other pages", "owner", never("is_forward_auth_host"))

DOORS = (original, forward_auth, views, elsewhere, own_paths)
