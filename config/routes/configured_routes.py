"""Configured routes: those of one configuration in their order, and which of them say what."""

import itertools
from array import array
from collections.abc import Iterable
from functools import cached_property
from typing import Self

from config.routes.route import Route


class ConfiguredRoutes(tuple[Route, ...]):
    """Configured routes.  Of ten thousand routes few say any one thing: who wants those need not look at the others.

    A reload takes over routes that are written as before, as the objects that they are, and they can't change.  So what follows from a
    route alone is worked out once, and is asked again only of those that were not there.
    """

    @classmethod
    def of(cls, routes: Iterable[Route]) -> "ConfiguredRoutes":
        return routes if type(routes) is cls else cls(routes)

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Route, ...]]]:
        """Without what was worked out: copies, and another process, have other objects."""
        return type(self), (tuple(self),)

    def saying(self, *names: str) -> list[tuple[int, Route]]:
        """Routes, in order and each with its place, that say one of these: attributes that are not as in a route which does not."""
        if unknown := set(names) - Route.model_fields.keys():
            raise KeyError(f"{', '.join(unknown)}: not an attribute of routes")
        found = [places for said, places in self._places.items() if not said.isdisjoint(names)]
        places: Iterable[int] = found[0] if len(found) == 1 else sorted(itertools.chain.from_iterable(found))
        return [(place, self[place]) for place in places]

    def beside(self, others: "ConfiguredRoutes") -> list[tuple[int, Route]]:
        """Routes, in order and each with its place, that are not among these others; those of equal words may be."""
        known = set(map(id, others))
        return [(place, route) for place, route in enumerate(self) if id(route) not in known]

    @cached_property
    def sees_access(self) -> bool:
        """Whether any of them looks at temporary access."""
        return any(route.sees_access for _, route in self.saying("access_requests", "policy"))

    @cached_property
    def _places(self) -> "dict[frozenset[str], array[int]]":
        """By all that a route says, in which most are alike.  Small, because sign-ins under way keep a configuration for a while."""
        places: dict[frozenset[str], array[int]] = {}
        for place, route in enumerate(self):
            if (alike := places.get(route.said)) is None:
                alike = places[route.said] = array("I")
            alike.append(place)
        return places
