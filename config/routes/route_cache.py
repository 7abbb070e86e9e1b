"""Route cache: a reload validates only the routes that changed."""

import marshal
from collections.abc import Iterable
from typing import Any

from config.fields.setting_files import watched_files
from config.routes.route import Route


class RouteCache:
    """Cache of the valid routes of the last configuration.

    Routes with equal text are equal, unless they name files: those are validated each time. The cached text is at most as long as one
    configuration file.
    """

    def __init__(self) -> None:
        self._before: dict[bytes, Route] = {}
        self._now: dict[bytes, Route] = {}

    def start_generation(self) -> None:
        """Start the next configuration: routes that it does not contain are dropped."""
        self._before, self._now = self._now, {}

    def find(self, written: Any) -> Route | None:
        """Return the cached route; None if there is none."""
        key = _key(written)
        route = self._before.get(key)
        if route is not None:
            self._now[key] = route
        return route

    def add(self, written: Any, route: Route) -> None:
        if next(watched_files(route), None) is None:
            self._now[_key(written)] = route


def new_routes(routes: Iterable[Route], others: Iterable[Route]) -> list[tuple[int, Route]]:
    """Return the routes that are not among `others`, in order, with their indexes. Routes are compared by identity."""
    known = set(map(id, others))
    return [(place, route) for place, route in enumerate(routes) if id(route) not in known]


def _key(written: Any) -> bytes:
    """Return a key that distinguishes types: in Python `1 == True`, but not in a configuration."""
    try:
        return marshal.dumps(written, 0)  # the version whose output depends on the values only
    except ValueError:  # TOML values can be dates
        return repr(written).encode("utf-8", "backslashreplace")
