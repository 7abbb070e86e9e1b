"""Upstreams for a file that says who enters, and not where: another file knows where the same hosts lead."""

from config.importing.beginning import NO_UPSTREAM
from config.importing.converted import GRANTS, OPEN, Converted, ConvertedEntry, ConvertedPart

_WHO = ("policy", *GRANTS, *OPEN)
# What the file that says who enters also says of what an application is told.
_KEPT = (*_WHO, "pass_identity_headers")


def take_upstreams(converted: Converted, places: Converted) -> None:
    """Take the routes of `places` for those that lead nowhere; who passes stays what it was for their host, or its wildcard."""
    taken = set[str]()
    routes = list[ConvertedPart]()
    for route in converted.routes:
        found = [place for place in places.routes if _host(place) not in taken and _is_for(route, place)]
        for place in found:
            routes.append(_together(route, place))
        taken |= {_host(place) for place in found}
        if not found or _host(route).startswith("https://*."):
            routes.append(route)
    for place in places.routes:
        if _host(place) not in taken:
            converted.top.note("CHECK", f"{_host(place)} has an upstream, and no rule is about it: it has no route")
    converted.routes = routes


def _host(route: ConvertedPart) -> str:
    entry = route.find("from")
    return str(entry.value) if entry else ""


def _is_for(route: ConvertedPart, place: ConvertedPart) -> bool:
    to, host, other = route.find("to"), _host(route), _host(place)
    if to is None or to.value != NO_UPSTREAM or not host:
        return False
    return host == other or (host.startswith("https://*.") and other.partition(".")[2] == host.removeprefix("https://*."))


def _together(route: ConvertedPart, place: ConvertedPart) -> ConvertedPart:
    """Where of the one, who of the other; notes of both, but not that nobody passes."""
    where = [entry for entry in place.entries if entry.key not in _KEPT and not _says_closed(entry)]
    who = [entry for entry in route.entries if entry.key in _KEPT or not entry.key]
    names = {entry.key for entry in who if entry.key}
    return ConvertedPart([*(entry for entry in where if entry.key not in names), *who])


def _says_closed(entry: ConvertedEntry) -> bool:
    return not entry.key and any(note.text.startswith("nobody passes") for note in entry.notes)
