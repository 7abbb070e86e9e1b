"""Route cache across reloads: of ten thousand routes only those that have changed are validated."""

import marshal
from collections.abc import Iterable
from typing import Any

from config.fields.setting_files import watched_files
from config.routes.route import Route


class RouteCache:
    """Cache of the good routes of the configuration that was read last, by what is written of them.

    Written the same means the same, but for files: a route that names one is read anew each time.  What is kept is no longer than one
    file may be.
    """

    def __init__(self) -> None:
        self._before: dict[bytes, Route] = {}
        self._now: dict[bytes, Route] = {}

    def start_generation(self) -> None:
        """Begin with another configuration: what it does not say again is forgotten."""
        self._before, self._now = self._now, {}

    def find(self, written: Any) -> Route | None:
        """Route of the configuration before."""
        key = _key(written)
        route = self._before.get(key)
        if route is not None:
            self._now[key] = route
        return route

    def add(self, written: Any, route: Route) -> None:
        if next(watched_files(route), None) is None:
            self._now[_key(written)] = route


def new_routes(routes: Iterable[Route], others: Iterable[Route]) -> list[tuple[int, Route]]:
    """Routes, in order and each with its place, that are not among these others; those of equal words may be."""
    known = set(map(id, others))
    return [(place, route) for place, route in enumerate(routes) if id(route) not in known]


def _key(written: Any) -> bytes:
    """Not by comparison: in Python `1 == True`, and a configuration means different things by them."""
    try:
        return marshal.dumps(written, 0)  # in the one version that is the same for the same values
    except ValueError:  # TOML has dates
        return repr(written).encode("utf-8", "backslashreplace")
