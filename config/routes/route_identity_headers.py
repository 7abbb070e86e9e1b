"""Identity headers of a route: their names and values, in addition to X-Gate-*."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from config.fields.field_type import TEXT, FieldType
from config.fields.header_fields import fold_name, header_name
from config.fields.header_template import ASSERTION, FINGERPRINT, REQUEST_ID, TOKENS, Template, Variable, static_value, template
from config.routes.policy.policy_language import ENFORCE
from config.validation import Finding

if TYPE_CHECKING:
    from config.routes.route import Route

_EMAIL, _USERNAME = "${claim.email}", "${claim.preferred_username}"
# Headers that applications read from other proxies: the documented names, and their values.
PRESETS: Mapping[str, Mapping[str, str]] = {
    "oauth2-proxy": {
        f"{prefix}{name}": template
        for prefix in ("X-Forwarded-", "X-Auth-Request-")
        for name, template in (("User", "${subject}"), ("Email", _EMAIL), ("Groups", "${groups}"), ("Preferred-Username", _USERNAME))
    },
    "iap": {
        "X-Goog-Authenticated-User-Email": f"accounts.google.com:{_EMAIL}",
        "X-Goog-Authenticated-User-Id": "accounts.google.com:${subject}",
        "X-Goog-IAP-JWT-Assertion": "${assertion}",
    },
    "cloudflare": {"Cf-Access-Authenticated-User-Email": _EMAIL, "Cf-Access-Jwt-Assertion": "${assertion}"},
    "remote-user": {"Remote-User": "${user}", "Remote-Name": "${claim.name}", "Remote-Email": _EMAIL, "Remote-Groups": "${groups}"},
}

_PORTS = {"http": 80, "https": 443}
# A client's own credentials belong to the application where gate sets none. No route accepts a client's forwarding headers.
_NOT_ONE_UPSTREAMS = ("authorization", "cookie", "forwarded", "x-forwarded-", "x-real-ip")

# The last ones are read by the API server of a Kubernetes cluster from its front proxy.
_READ_TOGETHER = (*map(tuple, PRESETS.values()), ("X-Remote-User", "X-Remote-Uid", "X-Remote-Group"))

# Host has its rewrites, a request has one id, and cluster_service_account_token impersonates users.
_NOT_BY_TEMPLATE = ("host", "x-request-id")

_LOOPBACK = "localhost"

_Address = tuple[str, int | None]


def assertion_header(value: Any) -> str:
    name = header_name(value)
    if fold_name(name) in _NOT_BY_TEMPLATE or fold_name(name) == "authorization" or fold_name(name).startswith(("x-gate-", "impersonate-")):
        raise ValueError(f"{name} is a header with another meaning. Choose another name")
    return name


AssertionHeader = Annotated[str, FieldType("string", assertion_header, TEXT)]


class RouteIdentityHeaders(NamedTuple):
    """Names of a route's identity headers, independent of their values.

    `set_by_gate` are sent with a value from a template. `stripped` are removed from client requests on this route, `stripped_on_upstream`
    on every route to the same upstream.
    """

    set_by_gate: tuple[str, ...] = ()
    stripped: tuple[bytes, ...] = ()
    stripped_on_upstream: tuple[bytes, ...] = ()


_NONE = RouteIdentityHeaders()


# enforcement-point: Upstream requests: Names of identity headers
def resolve_identity_headers(route: "Route") -> RouteIdentityHeaders:
    if not (route.identity_headers or route.assertion_header or route.set_request_headers):
        return _NONE
    headers = tuple((name, "$" in value and static_value(value) is None) for name, value in route.set_request_headers.items())
    return _build_names(route.identity_headers, route.assertion_header, headers)


@lru_cache(maxsize=1024)  # most routes share their headers
def _build_names(identity_headers: str | None, assertion_header: str | None, headers: tuple[tuple[str, bool], ...]) -> RouteIdentityHeaders:
    """Return the names for these keys.

    `headers` are the names in `set_request_headers`, each with whether its value is a template.
    """
    preset = PRESETS[identity_headers] if identity_headers else ()
    set_by_gate = dict.fromkeys((*preset, *((assertion_header,) if assertion_header else ())))
    for name, is_template in headers:
        set_by_gate = {other: None for other in set_by_gate if fold_name(other) != fold_name(name)} | ({name: None} if is_template else {})
    folded_names = {fold_name(name) for name in (*set_by_gate, *preset, *(name for name, _ in headers))}
    related = (name for names in _READ_TOGETHER if not folded_names.isdisjoint(map(fold_name, names)) for name in names)
    stripped = tuple(dict.fromkeys(name.lower().encode("ascii") for name in (*set_by_gate, *preset, *related)))
    everywhere = tuple(name for name in stripped if not fold_name(name.decode("ascii")).startswith(_NOT_ONE_UPSTREAMS))
    return RouteIdentityHeaders(tuple(set_by_gate), stripped, everywhere)


def header_templates(route: "Route") -> dict[str, Template]:
    """Return the templates by header name. `set_request_headers` overrides a preset."""
    texts = {**(PRESETS[route.identity_headers] if route.identity_headers else {})}
    texts |= {route.assertion_header: "${assertion}"} if route.assertion_header else {}
    texts |= route.set_request_headers
    return {name: template(texts[name]) for name in resolve_identity_headers(route).set_by_gate}


def provider_token_templates(route: "Route") -> dict[str, Template]:
    """Return the templates that contain a token of the provider."""
    return {name: parts for name, parts in header_templates(route).items() if uses_provider_token(parts)}


def uses_provider_token(parts: Template) -> bool:
    return any(isinstance(part, Variable) and part.name in TOKENS for part in parts)


def reserved_headers(route: "Route") -> tuple[bytes, ...]:
    """Return the lower-case names of the identity headers, which only gate may set, except X-Gate-*.

    They include every header of a preset, even if the route gives it a fixed value, and the headers that applications read together with
    one of them: an application that trusts `Remote-User` also trusts `Remote-Groups`.
    """
    return resolve_identity_headers(route).stripped


class IdentityHeaderNames:
    """Identity headers of one configuration.

    An application trusts a header on every route. A header that gate sets on one route is therefore stripped from client requests on all
    routes to the same upstream, including public ones.
    """

    def __init__(self, routes: Iterable["Route"]):
        self._by_upstream = dict[_Address, dict[bytes, None]]()
        for route in routes:
            if (names := route.identity_header_names.stripped_on_upstream) and route.mode == ENFORCE:
                for upstream in upstream_addresses(route):
                    self._by_upstream.setdefault(upstream, {}).update(dict.fromkeys(names))

    def headers_for(self, route: "Route") -> tuple[bytes, ...]:
        """Return the names of a route, and of other routes to its upstreams."""
        names = reserved_headers(route)
        if not self._by_upstream:
            return names
        there = (name for upstream in upstream_addresses(route) for name in self._by_upstream.get(upstream, ()))
        return tuple(dict.fromkeys((*names, *there)))

    def changed_since(self, before: "IdentityHeaderNames") -> Callable[["Route"], bool]:
        """Return a predicate for routes whose names changed because of other routes."""
        now, then = self._by_upstream, before._by_upstream
        changed = {upstream for upstream in now.keys() | then.keys() if now.get(upstream) != then.get(upstream)} if now != then else set()
        return (lambda route: not changed.isdisjoint(upstream_addresses(route))) if changed else _never


def _never(route: "Route") -> bool:
    return False


def upstream_addresses(route: "Route") -> Iterator[_Address]:
    for upstream in route.to:
        yield _canonical_host(upstream.url.host), upstream.url.port or _PORTS.get(upstream.url.scheme)


@lru_cache(maxsize=1024)
def _canonical_host(host: str) -> str:
    """Return one name for all spellings of an address, including IPv4-mapped ones, and for all loopback names."""
    name = host.strip("[]").lower().removesuffix(".")
    try:
        address = ip_address(name)
    except ValueError:
        return _LOOPBACK if name.endswith(f".{_LOOPBACK}") else name
    address = getattr(address, "ipv4_mapped", None) or address
    return _LOOPBACK if str(address) in ("127.0.0.1", "::1") else str(address)


def sends_identity(route: "Route") -> bool:
    """Return whether the route sends identity headers to its upstream."""
    return bool(route.pass_identity_headers or header_templates(route))


def sends_assertion(route: "Route") -> bool:
    return bool(route.pass_identity_headers or ASSERTION in _variables(route))


def is_per_request(route: "Route") -> bool:
    """Return whether the identity headers differ between two requests of one user."""
    return not {REQUEST_ID, FINGERPRINT}.isdisjoint(_variables(route))


def check_header_templates(route: "Route") -> Iterator[Finding]:
    for name, value in route.set_request_headers.items():
        if (fold_name(name) in _NOT_BY_TEMPLATE or fold_name(name).startswith("impersonate-")) and static_value(value) is None:
            yield ("set_request_headers", name), "has no value for this user"


def _variables(route: "Route") -> set[str]:
    return {part.name for parts in header_templates(route).values() for part in parts if isinstance(part, Variable)}
