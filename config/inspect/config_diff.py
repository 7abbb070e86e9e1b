"""Differences between two configurations, as redacted text."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

from config.inspect.redaction import display_value, redact
from config.inspect.source_map import SourceMap
from config.options import Options
from config.reference.setting_catalog import SettingKey, route_keys, settings_by_topic
from config.routes.route import Route
from config.validation import Settings
from foundation.values import WatchedFile

MAX_CHANGES = 200
UNSEEN = "The part that changed is not shown."
CONTENT = "The content of the file changed."
ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True, slots=True)
class ValueChange:
    """Change of one value.

    `note` explains what the redacted texts cannot show. `location` is the current location, or the former one of a removed value.
    """

    key: str
    kind: str
    before: str = ""
    after: str = ""
    location: str = ""
    note: str = ""


# Texts and locations are built on demand: few of ten thousand changes are displayed, and a reload must not wait for them.
LazyChange = Callable[[], ValueChange]


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """A configuration with the locations of its values."""

    options: Options
    source_map: SourceMap


def diff_configs(before: ConfigSnapshot, after: ConfigSnapshot) -> Iterator[LazyChange]:
    every = [key.name for group in settings_by_topic().values() for key in group if key.name != "policy"]
    yield from diff_settings(before, after, every)
    yield from _route_changes(before, after)


def diff_settings(before: ConfigSnapshot, after: ConfigSnapshot, names: Collection[str]) -> Iterator[LazyChange]:
    """Yield the changes of these settings."""
    for key in (key for group in settings_by_topic().values() for key in group if key.name in names):
        if _differs(before.options, after.options, key):
            yield partial(_change, before.options, after.options, key, key.name, partial(after.source_map.setting_location, key.name))


def _differs(before: Settings, after: Settings, key: SettingKey) -> bool:
    attribute = type(after).attributes()[key.name]
    return bool(getattr(before, attribute) != getattr(after, attribute))


def _change(before: Settings, after: Settings, key: SettingKey, name: str, place: Callable[[], str]) -> ValueChange:
    attribute = type(after).attributes()[key.name]
    old, new = getattr(before, attribute), getattr(after, attribute)
    texts = display_value(before, key), display_value(after, key)
    kind = ADDED if _is_nothing(old) else REMOVED if _is_nothing(new) else CHANGED
    note = "" if texts[0] != texts[1] else CONTENT if isinstance(new, WatchedFile) else UNSEEN
    return ValueChange(name, kind, *texts, place(), note)


def _is_nothing(value: Any) -> bool:
    return value is None or value in ((), {}, "")


def _route_changes(before: ConfigSnapshot, after: ConfigSnapshot) -> Iterator[LazyChange]:
    if before.options.policy is after.options.policy:
        return
    pairs, removed, added = _matched(before.options.policy, after.options.policy)
    for old, new in pairs:
        if before.options.policy[old] is not after.options.policy[new]:
            yield from _changed_keys(before, old, after, new)
    yield from (partial(_removed, before, index) for index in removed)
    yield from (partial(_added, after, index) for index in added)
    moved = [new for _, new in pairs]
    if moved != sorted(moved):
        yield partial(_reordered, after)


def _removed(before: ConfigSnapshot, index: int) -> ValueChange:
    route = before.options.policy[index]
    return ValueChange(_named(route, index), REMOVED, before=redact(route), location=before.source_map.route_location(index, "from"))


def _added(after: ConfigSnapshot, index: int) -> ValueChange:
    route = after.options.policy[index]
    return ValueChange(_named(route, index), ADDED, after=redact(route), location=after.source_map.route_location(index, "from"))


def _reordered(after: ConfigSnapshot) -> ValueChange:
    note = "The order of routes changed. The first match applies."
    return ValueChange("policy", CHANGED, location=after.source_map.setting_location("policy"), note=note)


def _changed_keys(before: ConfigSnapshot, old: int, after: ConfigSnapshot, new: int) -> Iterator[LazyChange]:
    then, now = before.options.policy[old], after.options.policy[new]
    for key in route_keys():
        if _differs(then, now, key):
            yield partial(
                _change, then, now, key, f"{_named(now, new)}: {key.name}", partial(after.source_map.route_location, new, key.name)
            )


def _purpose(route: Route) -> str:
    return route.id


def _name(route: Route) -> str:
    return route.name or str(route.from_)


def _named(route: Route, index: int) -> str:
    return f"policy[{index}] {_name(route)}"


def _matched(before: Sequence[Route], after: Sequence[Route]) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Pair the indexes of each route before and after, in the order of before; also return the indexes of removed and added routes.

    A common head and tail of identical objects is skipped. The rest is matched by identity, then by match and target, then by name or
    address.
    """
    pairs: list[tuple[int, int]] = []
    begin = _same_at_first(before, after)
    end = _same_at_first(before[begin:][::-1], after[begin:][::-1])
    old, new = list(range(begin, len(before) - end)), list(range(begin, len(after) - end))
    for same in (id, _purpose, _name):
        waiting: dict[object, list[int]] = {}
        for index in reversed(old):
            waiting.setdefault(same(before[index]), []).append(index)
        found = {index: known.pop() for index in new if (known := waiting.get(same(after[index])))}
        pairs += [(place, index) for index, place in found.items()]
        matched = set(found.values())
        old, new = [index for index in old if index not in matched], [index for index in new if index not in found]
    return sorted(pairs), old, new


def _same_at_first(before: Sequence[Route], after: Sequence[Route]) -> int:
    """Return the length of the common head of identical objects."""
    same = list(map(is_, before, after))
    return same.index(False) if False in same else len(same)
