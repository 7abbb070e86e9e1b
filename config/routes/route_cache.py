"""Route cache across reloads: one changed route among ten thousand costs little more than finding it in the file."""

import marshal
from collections.abc import Sequence
from typing import Any

from config.routes.route import Route
from config.types.files import watched_files


class RouteCache:
    """Cache of the good routes of the configuration that was read last, by their text in the file, or by what is written of them.

    Written the same means the same, but for files: a route that names one is read anew each time.  What is kept is no longer than one
    file may be.
    """

    def __init__(self) -> None:
        self._before: dict[str | bytes, Route] = {}
        self._now: dict[str | bytes, Route] = {}

    def begin(self) -> None:
        """Begin with another configuration: what it does not say again is forgotten."""
        self._before, self._now = self._now, {}

    @property
    def has_texts(self) -> bool:
        return isinstance(next(iter(self._now), None), str)

    def knows(self, text: str) -> bool:
        """Whether the last configuration had a route of this text."""
        return text in self._now

    def find_all(self, texts: Sequence[str]) -> list[Route | None]:
        """Routes of the configuration before, by these texts of the file."""
        found = list(map(self._before.get, texts))
        self._now.update((text, route) for text, route in zip(texts, found, strict=True) if route is not None)
        return found

    def find(self, written: Any, text: str = "") -> Route | None:
        """Route of the configuration before; `text` is that of the file where one is all that was written of it."""
        key = text or _key(written)
        route = self._before.get(key)
        if route is not None:
            self._now[key] = route
        return route

    def add(self, written: Any, route: Route, text: str = "") -> None:
        if next(watched_files(route), None) is None:
            self._now[text or _key(written)] = route


def _key(written: Any) -> bytes:
    """Not by comparison: in Python `1 == True`, and a configuration means different things by them."""
    try:
        return marshal.dumps(written, 0)  # in the one version that is the same for the same values
    except ValueError:  # TOML has dates
        return repr(written).encode("utf-8", "backslashreplace")
