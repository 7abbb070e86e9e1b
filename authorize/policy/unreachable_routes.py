"""Routes that can never match, because an earlier route matches all their requests.

The check is sound but not complete: it does not find routes that several earlier routes cover together.  It compares routes of the same
host and port only, because a host with its own routes never uses a wildcard's (route_table.py).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from authorize.policy.paths.canonical import canonical_setting_path, canonical_setting_prefix
from config.routes.route import Route
from foundation.errors import BadRequest

# Limit of regex matches, because one host may have thousands of paths and expressions.
MAX_REGEX_TRIALS = 100_000

_LITERAL = re.compile(r"(?:[A-Za-z0-9/_~%=:@!,;&'-]|\\[.+*?()\[\]{}|^$/-])*")
_QUANTIFIERS = frozenset("*+?{")
_EVERYTHING = frozenset({".*", "/.*", ".+", "/?.*"})


@dataclass(frozen=True, slots=True)
class _Conditions:
    """Conditions of a route on the canonical path.  None means no condition."""

    path: str | None
    prefix: str | None
    regex: str | None

    @property
    def required_prefix(self) -> str:
        """Return the prefix of every path that matches."""
        regex = "" if self.regex is None else literal_prefix(self.regex)
        return max((self.path or "", self.prefix or "", regex), key=len)


def unreachable(routes: Sequence[Route], default_ports: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of indexes: a route that can never match, and the earlier one that covers it."""
    lists: dict[tuple[str, str, int | None], list[tuple[int, _Conditions]]] = {}
    for index, route in enumerate(routes):
        conditions = _conditions(route)
        if conditions is not None:
            port = None if route.from_.port in default_ports else route.from_.port
            lists.setdefault((route.from_.scheme, route.from_.host, port), []).append((index, conditions))
    for found in lists.values():
        if len(found) > 1:
            yield from _Host().unreachable(found)


def _conditions(route: Route) -> _Conditions | None:
    """Return the conditions, None for a route that cannot be compiled."""
    try:
        path = None if route.path is None else canonical_setting_path(route.path)
        prefix = None if route.prefix is None else canonical_setting_prefix(route.prefix)
    except BadRequest:
        return None
    regex = None if route.regex is None or route.regex in _EVERYTHING else route.regex
    # Every canonical path begins with a slash.
    return _Conditions(path, None if prefix == "/" else prefix, regex)


class _Host:
    """Routes of one host so far, by their only condition.  Routes with several conditions are not considered as covers."""

    def __init__(self) -> None:
        self._everything: int | None = None
        self._paths: dict[str, int] = {}
        self._prefixes: dict[str, int] = {}
        self._same: dict[_Conditions, int] = {}
        self._regexes: list[tuple[int, Callable[[str], object]]] = []
        self._trials = 0

    def unreachable(self, routes: Sequence[tuple[int, _Conditions]]) -> Iterator[tuple[int, int]]:
        for index, conditions in routes:
            cover = self._covering_route(conditions)
            if cover is not None:
                yield index, cover
            else:
                self._add(index, conditions)

    def _covering_route(self, conditions: _Conditions) -> int | None:
        found = [self._everything, self._same.get(conditions), self._match_prefix(conditions.required_prefix)]
        if conditions.path is not None:
            found += [self._paths.get(conditions.path), self._match_regex(conditions.path)]
        elif conditions.regex is not None and (literal := _complete_literal(conditions.regex)) is not None:
            found += [self._paths.get(literal), self._match_regex(literal)]
        return min((index for index in found if index is not None), default=None)

    def _match_prefix(self, beginning: str) -> int | None:
        found = (self._prefixes.get(beginning[:length]) for length in range(1, len(beginning) + 1))
        return min((index for index in found if index is not None), default=None)

    def _match_regex(self, path: str) -> int | None:
        for index, matches in self._regexes:
            self._trials += 1
            if self._trials > MAX_REGEX_TRIALS:
                return None
            if matches(path):
                return index
        return None

    def _add(self, index: int, conditions: _Conditions) -> None:
        self._same[conditions] = index
        present = [each for each in (conditions.path, conditions.prefix, conditions.regex) if each is not None]
        if not present:
            self._everything = index
        elif len(present) > 1:
            return
        elif conditions.path is not None:
            self._paths[conditions.path] = index
        elif conditions.prefix is not None:
            self._prefixes[conditions.prefix] = index
        elif conditions.regex is not None:
            import re2  # 2 MiB, for expressions alone

            self._regexes.append((index, re2.compile(conditions.regex).fullmatch))
            if (beginning := _open_ended_prefix(conditions.regex)) is not None:
                self._prefixes.setdefault(beginning, index)


def literal_prefix(regex: str) -> str:
    """Return the literal that every match starts with, as far as it is obvious.  "" for an alternation."""
    if "|" in regex:
        return ""
    found = _LITERAL.match(regex)
    literal = found[0] if found else ""
    if regex[len(literal) : len(literal) + 1] in _QUANTIFIERS:  # the last character may be missing
        literal = literal[: -2 if literal[-2:-1] == "\\" else -1]
    return literal.replace("\\", "")


def _complete_literal(regex: str) -> str | None:
    found = _LITERAL.fullmatch(regex)
    return found[0].replace("\\", "") if found else None


def _open_ended_prefix(regex: str) -> str | None:
    """Return `/api/` of `/api/.*`, which matches the same paths as the prefix."""
    return _complete_literal(regex.removesuffix(".*")) if regex.endswith(".*") else None
