"""Told headers: under which names and in which words a route's upstream is told about the caller, besides X-Gate-*."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from config.routes.policy_language import ENFORCE
from config.types.header_template import ASSERTION, FINGERPRINT, REQUEST_ID, TOKENS, Template, Variable, literal, template
from config.types.headers import folded, header_name
from config.types.reader import TEXT, SettingReader
from config.validation import Finding

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
    "remote-user": {"Remote-User": _USERNAME, "Remote-Name": "${claim.name}", "Remote-Email": _EMAIL, "Remote-Groups": "${groups}"},
}

_PORTS = {"http": 80, "https": 443}
# A client's own credentials are for the application to judge where gate has none; of a client's way here no route lets anybody tell.
_NOT_ONE_UPSTREAMS = ("authorization", "cookie", "forwarded", "x-forwarded-", "x-real-ip")

# The last are what the API server of a cluster reads of a front proxy.
_READ_TOGETHER = (*map(tuple, PRESETS.values()), ("X-Remote-User", "X-Remote-Uid", "X-Remote-Group"))

# Host has its rewrites, a request one id, and who acts for others does so by cluster_service_account_token.
_NOT_BY_TEMPLATE = ("host", "x-request-id")


def assertion_header(value: Any) -> str:
    name = header_name(value)
    if folded(name) in _NOT_BY_TEMPLATE or folded(name) == "authorization" or folded(name).startswith(("x-gate-", "impersonate-")):
        raise ValueError(f"{name} has a meaning of its own: choose another")
    return name


AssertionHeader = Annotated[str, SettingReader("string", assertion_header, TEXT)]


def told_templates(route: Any) -> dict[str, Template]:
    """Templates by the header's name, in which the route's own words outrank those of its preset."""
    if not (route.identity_headers or route.assertion_header or route.set_request_headers):
        return {}
    found = dict(PRESETS[route.identity_headers]) if route.identity_headers else {}
    found |= {route.assertion_header: "${assertion}"} if route.assertion_header else {}
    for name, value in route.set_request_headers.items():
        found = {other: text for other, text in found.items() if folded(other) != folded(name)}
        found |= {name: value} if literal(value) is None else {}
    return {name: template(text) for name, text in found.items()}


def token_templates(route: Any) -> dict[str, Template]:
    """Those of them that hold a token of the provider."""
    return {name: parts for name, parts in told_templates(route).items() if names_token(parts)}


def names_token(parts: Template) -> bool:
    return any(isinstance(part, Variable) and part.name in TOKENS for part in parts)


def told_names(route: Any) -> tuple[bytes, ...]:
    """Lower-case names of the headers by which the route's upstream is told, besides X-Gate-*: nobody else may say them.

    Of a preset all count, those too to which the route gives a fixed value; and so do those that applications read beside one that it sets:
    whoever believes `Remote-User` believes `Remote-Groups`.
    """
    preset = PRESETS[route.identity_headers] if route.identity_headers else ()
    own = (*told_templates(route), *preset)
    said = {folded(name) for name in (*own, *route.set_request_headers)}
    beside = (name for names in _READ_TOGETHER if said and not said.isdisjoint(map(folded, names)) for name in names)
    return tuple(dict.fromkeys(name.lower().encode("ascii") for name in (*own, *beside)))


class ToldNames:
    """Told names of one configuration.  Who believes a header believes it on every route: what gate tells an upstream on one of them nobody
    else says on another, least of all where no one needs to sign in."""

    def __init__(self, routes: Iterable[Any]):
        self._by_upstream = dict[tuple[str, int | None], dict[bytes, None]]()
        for route in (each for each in routes if each.mode == ENFORCE):
            if names := [name for name in told_names(route) if not folded(name.decode("ascii")).startswith(_NOT_ONE_UPSTREAMS)]:
                for upstream in _upstreams(route):
                    self._by_upstream.setdefault(upstream, {}).update(dict.fromkeys(names))

    def of(self, route: Any) -> tuple[bytes, ...]:
        """Names of a route, and of others that lead to an upstream of it."""
        own = told_names(route)
        if not self._by_upstream:
            return own
        there = (name for upstream in _upstreams(route) for name in self._by_upstream.get(upstream, ()))
        return tuple(dict.fromkeys((*own, *there)))


def _upstreams(route: Any) -> Iterator[tuple[str, int | None]]:
    for upstream in route.to:
        yield upstream.url.host, upstream.url.port or _PORTS.get(upstream.url.scheme)


def tells_person(route: Any) -> bool:
    """Whether the route's upstream is told anything about the caller."""
    return bool(route.pass_identity_headers or told_templates(route))


def sends_assertion(route: Any) -> bool:
    return bool(route.pass_identity_headers or ASSERTION in _variables(route))


def varies_by_request(route: Any) -> bool:
    """Whether two requests of one person are told of differently."""
    return not {REQUEST_ID, FINGERPRINT}.isdisjoint(_variables(route))


def templates_can_be_set(route: Any) -> Iterator[Finding]:
    for name, value in route.set_request_headers.items():
        if (folded(name) in _NOT_BY_TEMPLATE or folded(name).startswith("impersonate-")) and literal(value) is None:
            yield ("set_request_headers", name), "can't be made of what is known of the caller"


def _variables(route: Any) -> set[str]:
    return {part.name for parts in told_templates(route).values() for part in parts if isinstance(part, Variable)}
