"""Frozen JSON: dicts and lists that refuse to be changed, so that stored data stay what they were."""

from collections.abc import Mapping
from sys import intern
from typing import Any, NoReturn


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("stored data can't be changed in place: put a changed copy")


# Subclasses of dict and list, not proxies and tuples: dataclasses.asdict, json and isinstance must go on working.
class FrozenDict(dict[str, Any]):
    """A dict that refuses to be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses to be changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


# Most values are of these exact types; to ask what else they could be takes four times as long.
_UNCHANGEABLE = frozenset({type(None), bool, int, float, str, FrozenDict, FrozenList})


def frozen_data(data: Mapping[str, Any]) -> FrozenDict:
    """A deep copy that can't be changed; TypeError for what JSON can't say."""
    frozen = {}
    for key, value in data.items():
        # One object for each name, however many records have it: else names are much of what a cached session weighs.
        name = intern(key) if type(key) is str else _text(key)
        frozen[name] = value if type(value) in _UNCHANGEABLE else _frozen(value)
    return FrozenDict(frozen)


def _text(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("keys of stored data must be text")
    return key


def _frozen(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str() | FrozenDict() | FrozenList():
            return value
        case Mapping():
            return frozen_data(value)
        case list() | tuple():
            # The texts in lists are groups, roles, methods: many records have the same ones.
            return FrozenList([intern(item) if type(item) is str else _frozen(item) for item in value])
    raise TypeError(f"stored data must be JSON values, not {type(value).__name__}")
