"""Told headers: under which names and in which words a route's upstream is told about the caller, besides X-Gate-*."""

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
# Headers that applications read which were made for another proxy: its documented names, and what it says under them.
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
# A client's own credentials are for the application to judge where gate has none; of a client's way here no route lets anybody tell.
_NOT_ONE_UPSTREAMS = ("authorization", "cookie", "forwarded", "x-forwarded-", "x-real-ip")

# The last are what the API server of a cluster reads of a front proxy.
_READ_TOGETHER = (*map(tuple, PRESETS.values()), ("X-Remote-User", "X-Remote-Uid", "X-Remote-Group"))

# Host has its rewrites, a request one id, and who acts for others does so by cluster_service_account_token.
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
    """Names that follow from the headers of a route, whatever the values in them are."""

    set_by_gate: tuple[str, ...] = ()
    stripped: tuple[bytes, ...] = ()
    stripped_on_upstream: tuple[bytes, ...] = ()


_NONE = RouteIdentityHeaders()


# enforcement-point: Upstream requests: Names of identity headers
def resolve_identity_headers(route: "Route") -> RouteIdentityHeaders:
    if not (route.identity_headers or route.assertion_header or route.set_request_headers):
        return _NONE
    said = tuple((name, "$" in value and static_value(value) is None) for name, value in route.set_request_headers.items())
    return _names_of(route.identity_headers, route.assertion_header, said)


@lru_cache(maxsize=1024)  # of ten thousand routes most are alike in this
def _names_of(identity_headers: str | None, assertion_header: str | None, said: tuple[tuple[str, bool], ...]) -> RouteIdentityHeaders:
    """`said`: headers that a route sets, each with whether it is made of a template."""
    preset = PRESETS[identity_headers] if identity_headers else ()
    told = dict.fromkeys((*preset, *((assertion_header,) if assertion_header else ())))
    for name, is_template in said:
        told = {other: None for other in told if fold_name(other) != fold_name(name)} | ({name: None} if is_template else {})
    folded_names = {fold_name(name) for name in (*told, *preset, *(name for name, _ in said))}
    beside = (name for names in _READ_TOGETHER if not folded_names.isdisjoint(map(fold_name, names)) for name in names)
    withheld = tuple(dict.fromkeys(name.lower().encode("ascii") for name in (*told, *preset, *beside)))
    everywhere = tuple(name for name in withheld if not fold_name(name.decode("ascii")).startswith(_NOT_ONE_UPSTREAMS))
    return RouteIdentityHeaders(tuple(told), withheld, everywhere)


def header_templates(route: "Route") -> dict[str, Template]:
    """Templates by the header's name, in which the route's own words outrank those of its preset."""
    texts = {**(PRESETS[route.identity_headers] if route.identity_headers else {})}
    texts |= {route.assertion_header: "${assertion}"} if route.assertion_header else {}
    texts |= route.set_request_headers
    return {name: template(texts[name]) for name in resolve_identity_headers(route).set_by_gate}


def provider_token_templates(route: "Route") -> dict[str, Template]:
    """Those of them that hold a token of the provider."""
    return {name: parts for name, parts in header_templates(route).items() if uses_provider_token(parts)}


def uses_provider_token(parts: Template) -> bool:
    return any(isinstance(part, Variable) and part.name in TOKENS for part in parts)


def reserved_headers(route: "Route") -> tuple[bytes, ...]:
    """Lower-case names of the headers by which the route's upstream is told, besides X-Gate-*: nobody else may say them.

    Of a preset all count, those too to which the route gives a fixed value; and so do those that applications read beside one that it sets:
    whoever believes `Remote-User` believes `Remote-Groups`.
    """
    return resolve_identity_headers(route).stripped


class IdentityHeaderNames:
    """Told names of one configuration.  Who believes a header believes it on every route: what gate tells an upstream on one of them nobody
    else says on another, least of all where no one needs to sign in."""

    def __init__(self, routes: Iterable["Route"]):
        self._by_upstream = dict[_Address, dict[bytes, None]]()
        for route in routes:
            if (names := route.identity_header_names.stripped_on_upstream) and route.mode == ENFORCE:
                for upstream in upstream_addresses(route):
                    self._by_upstream.setdefault(upstream, {}).update(dict.fromkeys(names))

    def headers_for(self, route: "Route") -> tuple[bytes, ...]:
        """Names of a route, and of others that lead to an upstream of it."""
        own = reserved_headers(route)
        if not self._by_upstream:
            return own
        there = (name for upstream in upstream_addresses(route) for name in self._by_upstream.get(upstream, ()))
        return tuple(dict.fromkeys((*own, *there)))

    def changed_since(self, before: "IdentityHeaderNames") -> Callable[["Route"], bool]:
        """Whether other names count on a route than did, as far as other routes have a say in that."""
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
    """Return one name for all spellings of an address, IPv4-mapped ones included, and for all names of this machine's loopback."""
    name = host.strip("[]").lower().removesuffix(".")
    try:
        address = ip_address(name)
    except ValueError:
        return _LOOPBACK if name.endswith(f".{_LOOPBACK}") else name
    address = getattr(address, "ipv4_mapped", None) or address
    return _LOOPBACK if str(address) in ("127.0.0.1", "::1") else str(address)


def sends_identity(route: "Route") -> bool:
    """Whether the route's upstream is told anything about the caller."""
    return bool(route.pass_identity_headers or header_templates(route))


def sends_assertion(route: "Route") -> bool:
    return bool(route.pass_identity_headers or ASSERTION in _variables(route))


def is_per_request(route: "Route") -> bool:
    """Whether two requests of one person are told of differently."""
    return not {REQUEST_ID, FINGERPRINT}.isdisjoint(_variables(route))


def check_header_templates(route: "Route") -> Iterator[Finding]:
    for name, value in route.set_request_headers.items():
        if (fold_name(name) in _NOT_BY_TEMPLATE or fold_name(name).startswith("impersonate-")) and static_value(value) is None:
            yield ("set_request_headers", name), "has no value for this user"


def _variables(route: "Route") -> set[str]:
    return {part.name for parts in header_templates(route).values() for part in parts if isinstance(part, Variable)}
