"""Importer for Traefik's labels in a Docker Compose file: a route for each host and path of a router, with the container as upstream.

Traefik has no access rules: it uses forward auth, or allows everyone. The routes deny all users until the operator adds rules.
"""

from collections.abc import Callable, Iterator

from config.importing.conversion import Conversion, ConvertedSection
from config.importing.foreign_file import TRAEFIK, ForeignConfig
from config.importing.preamble import write_preamble
from config.importing.traefik.docker_labels import TraefikLabels, TraefikObject, read_labels
from config.importing.traefik.router_rule import RuleBranch, UnsupportedRule, rule_branches

_ISSUER = "https://provider.invalid"
# Kind of middleware -> its counterpart.
_KINDS = {
    "stripprefix": "",
    "redirectscheme": "gate's http_redirect_addr redirects every request to https",
    "compress": "applications compress responses themselves",
    "headers": "use set_request_headers for upstreams, headers for browsers",
    "ratelimit": "gate does not limit request rates",
    "basicauth": "gate does not handle passwords: users sign in at the provider",
    "digestauth": "gate does not handle passwords: users sign in at the provider",
    "ipallowlist": "write it as a policy with source_ip",
    "ipwhitelist": "write it as a policy with source_ip",
}

# Kinds that do not restrict access. Those that change the path are not included: forward auth after one saw another path.
_UNRESTRICTIVE = frozenset(
    {"buffering", "circuitbreaker", "compress", "contenttype", "errors", "headers", "ratelimit", "redirectregex", "redirectscheme", "retry"}
)


def convert(foreign: ForeignConfig, new_secret: Callable[[], bytes]) -> Conversion:
    """Convert the labels. `new_secret` returns 32 random bytes."""
    converted, labels = Conversion(TRAEFIK), read_labels(foreign)
    found = [(router, part) for router in _by_priority(labels.routers) for part in _parts(converted.top, router)]
    domain = next((part.host.partition(".")[2] for _, part in found if part.host.count(".") > 1), "example.com")
    write_preamble(
        converted.top, domain, _ISSUER, "Traefik has no identity provider. Write yours", "a client that you register there", new_secret
    )
    converted.top.note("NEW", "containers are named as in the Compose file: gate must share a network with them")
    converted.top.note("NEW", "entry points have no counterpart: gate serves every route at `address`, over https")
    for router, part in found:
        converted.routes.append(_route(router, part, labels))
    return converted


def _by_priority(routers: dict[str, TraefikObject]) -> list[TraefikObject]:
    """Return the routers in Traefik's order: by priority, which defaults to the length of the rule."""

    def priority(router: TraefikObject) -> int:
        written = router.options.get("priority", "")
        return int(written) if written.isdigit() and int(written) else len(router.options.get("rule", ""))

    return sorted(routers.values(), key=priority, reverse=True)


def _parts(top: ConvertedSection, router: TraefikObject) -> Iterator[RuleBranch]:
    rule = router.options.get("rule", "")
    try:
        parts = rule_branches(rule)
    except UnsupportedRule as error:
        top.mark_lost(router.source, f"router {router.name}: {rule}: {error}; its hosts get no route")
        return
    for part in parts:
        if part.host and all(sign.isalnum() or sign in "-._:" for sign in part.host):
            yield part
        else:
            top.mark_lost(router.source, f"router {router.name}: {rule}: it names no host, and gate needs a route for each. Add the routes")


def _route(router: TraefikObject, part: RuleBranch, labels: TraefikLabels) -> ConvertedSection:
    route = ConvertedSection()
    route.set(router.source, "from", f"https://{part.host}")
    if part.path not in ("", "/") or not part.is_prefix:
        route.set(None, "prefix" if part.is_prefix else "path", part.path)
    _convert_upstream(route, router, labels)
    route.set(None, "preserve_host_header", True)
    route.set(None, "allow_websockets", True)
    route.set(None, "pass_identity_headers", True)
    route.has_dropped_restrictions = bool(part.unsupported)
    for matcher in part.unsupported:
        route.note("CHECK", f"{router.source}: {matcher} has no counterpart, so this route matches more requests than the router")
    _convert_middlewares(route, router, part, labels)
    return route


def _convert_upstream(route: ConvertedSection, router: TraefikObject, labels: TraefikLabels) -> None:
    named = router.options.get("service", "")
    same_container = [service for service in labels.services.values() if service.container == router.container]
    service = labels.services.get(named.partition("@")[0]) if named else same_container[0] if len(same_container) == 1 else None
    options = service.options if service else {}
    container = service.container if service else router.container
    scheme, port = options.get("loadbalancer.server.scheme", "http"), options.get("loadbalancer.server.port", "")
    note_text = "" if port.isdigit() else "no label sets its port, so Traefik used the exposed port of the image. Write it"
    route.set(None, "to", f"{scheme}://{container}{':' + port if port.isdigit() else ''}", new=note_text)


def _convert_middlewares(route: ConvertedSection, router: TraefikObject, part: RuleBranch, labels: TraefikLabels) -> None:
    auth_urls = []
    for name in _named(router.options.get("middlewares", ""), labels):
        middleware = labels.middlewares.get(name.partition("@")[0])
        kinds = {key.partition(".")[0] for key in middleware.options} if middleware else set()
        if middleware and "forwardauth" in kinds:
            auth_urls.append(middleware.options.get("forwardauth.address", name))
        elif middleware and kinds == {"stripprefix"} and _stripped(middleware) == [part.path.rstrip("/")]:
            route.set(middleware.source, "prefix_rewrite", "/")
        else:
            kind = next(iter(kinds), "")
            route.has_dropped_restrictions = route.has_dropped_restrictions or kind not in _UNRESTRICTIVE
            route.mark_lost(router.source, f"middleware {name}: {_KINDS.get(kind) or 'it has no counterpart or is not in this file'}")
    route.auth_urls = tuple(auth_urls)
    if auth_urls:
        note_text = f"{', '.join(auth_urls)} made the decisions: import its configuration and use its policy"
    else:
        note_text = "there was no authentication here. Set allow_public_unauthenticated_access: true to keep that"
    route.note("CHECK", f"all users are denied: {note_text}")


def _stripped(middleware: TraefikObject) -> list[str]:
    return [prefix.strip().rstrip("/") for prefix in middleware.options.get("stripprefix.prefixes", "").split(",")]


def _named(written: str, labels: TraefikLabels, depth: int = 8) -> Iterator[str]:
    """Yield the names of middlewares, with chains expanded."""
    for name in filter(None, (part.strip() for part in written.split(","))):
        middleware = labels.middlewares.get(name.partition("@")[0])
        chain = middleware.options.get("chain.middlewares", "") if middleware else ""
        if chain and depth:
            yield from _named(chain, labels, depth - 1)
        else:
            yield name
