"""Upstreams for a file that says who enters, and not where: another file knows where the same hosts lead."""

from dataclasses import replace

from config.importing.conversion import GRANTS, OPEN, Conversion, ConvertedEntry, ConvertedSection
from config.importing.foreign_file import AUTHELIA, AUTHENTIK
from config.importing.preamble import NO_UPSTREAM

_ACCESS_KEYS = ("policy", *GRANTS, *OPEN)
# What the file that says who enters also says of what an application is told.
_AUTH_KEYS = (*_ACCESS_KEYS, "pass_identity_headers")


# What stands in the address at which each product is asked.
_AUTH_ENDPOINTS = {AUTHELIA: ("/api/authz/", "/api/verify"), AUTHENTIK: ("/outpost.goauthentik.io/",)}


def merge_upstreams(converted: Conversion, places: Conversion) -> None:
    """Take the routes of `places` for those that lead nowhere; who passes stays what it was for their host, or its wildcard.

    A place that kept out whom nothing here does, or that asked somebody else as well, is closed.
    """
    taken = set[str]()
    routes = list[ConvertedSection]()
    for route in converted.routes:
        found = [place for place in places.routes if _host(place) not in taken and _is_for(route, place)]
        for place in found:
            routes.append(_merge(route, place))
            if _has_other_limits(place, route, converted.product):
                routes[-1].close()
                routes[-1].note(
                    "CHECK", "all users are denied: it had more restrictions than this file contains (see above). Add the users to allow"
                )
        taken |= {_host(place) for place in found}
        if not found or _host(route).startswith("https://*."):
            routes.append(route)
    for place in places.routes:
        if _host(place) not in taken:
            converted.top.note("CHECK", f"{_host(place)} has an upstream but no rule: it gets no route")
    converted.routes = routes


def _has_other_limits(place: ConvertedSection, route: ConvertedSection, product: str) -> bool:
    """Whether the place kept out others, asked somebody else, or may have asked about another path than the one that rules see here."""
    policy = route.find("policy")
    looks_at_path = policy is not None and "http_path" in str(policy.value)
    asked_others = not all(_is_auth_endpoint(address, product) for address in place.asked)
    return place.has_lost_limits or asked_others or (looks_at_path and place.has("prefix_rewrite"))


def _is_auth_endpoint(address: str, product: str) -> bool:
    return any(part in address for part in _AUTH_ENDPOINTS.get(product, ()))


def _host(route: ConvertedSection) -> str:
    entry = route.find("from")
    return str(entry.value) if entry else ""


def _is_for(route: ConvertedSection, place: ConvertedSection) -> bool:
    to, host, other = route.find("to"), _host(route), _host(place)
    if to is None or to.value != NO_UPSTREAM or not host:
        return False
    return host == other or (host.startswith("https://*.") and other.partition(".")[2] == host.removeprefix("https://*."))


def _merge(route: ConvertedSection, place: ConvertedSection) -> ConvertedSection:
    """Where of the one, who of the other; notes of both, but not that nobody passes."""
    where = [entry for entry in place.entries if entry.key not in _AUTH_KEYS and not _is_deny_all_note(entry)]
    # Copies: several places may be of one route, and what closes one of them closes no other.
    who = [replace(entry, notes=list(entry.notes)) for entry in route.entries if entry.key in _AUTH_KEYS or not entry.key]
    names = {entry.key for entry in who if entry.key}
    return ConvertedSection([*(entry for entry in where if entry.key not in names), *who])


def _is_deny_all_note(entry: ConvertedEntry) -> bool:
    return not entry.key and any(note.text.startswith("all users are denied") for note in entry.notes)
