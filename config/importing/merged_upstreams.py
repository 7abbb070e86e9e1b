"""Merges a conversion that has access rules but no upstreams with one that has the upstreams of the same hosts."""

from dataclasses import replace

from config.importing.conversion import GRANTS, OPEN, Conversion, ConvertedEntry, ConvertedSection
from config.importing.foreign_file import AUTHELIA, AUTHENTIK
from config.importing.preamble import NO_UPSTREAM

_ACCESS_KEYS = ("policy", *GRANTS, *OPEN)
# Keys that the file with the access rules also sets.
_AUTH_KEYS = (*_ACCESS_KEYS, "pass_identity_headers")


# Part of the URL of each product's authorization endpoint.
_AUTH_ENDPOINTS = {AUTHELIA: ("/api/authz/", "/api/verify"), AUTHENTIK: ("/outpost.goauthentik.io/",)}


def merge_upstreams(converted: Conversion, routing: Conversion) -> None:
    """Replace the routes without an upstream by those of `routing` for the same host; the access rules stay.

    A route that lost restrictions, or asked another authorization endpoint too, denies all users.
    """
    merged_hosts = set[str]()
    routes = list[ConvertedSection]()
    for route in converted.routes:
        found = [origin for origin in routing.routes if _host(origin) not in merged_hosts and _is_for(route, origin)]
        for origin in found:
            routes.append(_merge(route, origin))
            if _has_other_limits(origin, route, converted.product):
                routes[-1].deny_all()
                routes[-1].note(
                    "CHECK", "all users are denied: it had more restrictions than this file contains (see above). Add the users to allow"
                )
        merged_hosts |= {_host(origin) for origin in found}
        if not found or _host(route).startswith("https://*."):
            routes.append(route)
    for origin in routing.routes:
        if _host(origin) not in merged_hosts:
            converted.top.note("CHECK", f"{_host(origin)} has an upstream but no rule: it gets no route")
    converted.routes = routes


def _has_other_limits(origin: ConvertedSection, route: ConvertedSection, product: str) -> bool:
    """Return whether the original route had restrictions that are lost.

    Those are dropped restrictions, other authorization endpoints, and a rewrite that changed the path which the rules saw.
    """
    policy = route.find("policy")
    looks_at_path = policy is not None and "http_path" in str(policy.value)
    has_other_endpoints = not all(_is_auth_endpoint(address, product) for address in origin.auth_urls)
    return origin.has_dropped_restrictions or has_other_endpoints or (looks_at_path and origin.has("prefix_rewrite"))


def _is_auth_endpoint(address: str, product: str) -> bool:
    return any(part in address for part in _AUTH_ENDPOINTS.get(product, ()))


def _host(route: ConvertedSection) -> str:
    entry = route.find("from")
    return str(entry.value) if entry else ""


def _is_for(route: ConvertedSection, origin: ConvertedSection) -> bool:
    to, host, other = route.find("to"), _host(route), _host(origin)
    if to is None or to.value != NO_UPSTREAM or not host:
        return False
    return host == other or (host.startswith("https://*.") and other.partition(".")[2] == host.removeprefix("https://*."))


def _merge(route: ConvertedSection, origin: ConvertedSection) -> ConvertedSection:
    """Combine the routing of one and the access of the other, with the notes of both, except the note that all users are denied."""
    where = [entry for entry in origin.entries if entry.key not in _AUTH_KEYS and not _is_deny_all_note(entry)]
    # Copies, because several routes may share an entry, and denying one must not change the others.
    access = [replace(entry, notes=list(entry.notes)) for entry in route.entries if entry.key in _AUTH_KEYS or not entry.key]
    names = {entry.key for entry in access if entry.key}
    return ConvertedSection([*(entry for entry in where if entry.key not in names), *access])


def _is_deny_all_note(entry: ConvertedEntry) -> bool:
    return not entry.key and any(note.text.startswith("all users are denied") for note in entry.notes)
