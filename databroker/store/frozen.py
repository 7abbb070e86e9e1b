"""Immutable JSON: dicts and lists that cannot be changed, for stored data."""

from collections.abc import Mapping
from sys import intern
from typing import Any, NoReturn


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("stored data can't be changed in place: put a changed copy")


# Subclasses of dict and list rather than proxies and tuples, because dataclasses.asdict, json and isinstance must work.
class FrozenDict(dict[str, Any]):
    """Immutable dict."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """Immutable list."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


# Most values have exactly these types; the general check takes four times as long.
_UNCHANGEABLE = frozenset({type(None), bool, int, float, str, FrozenDict, FrozenList})


def frozen_data(data: Mapping[str, Any]) -> FrozenDict:
    """Return an immutable deep copy.  Raises TypeError for a value that JSON cannot represent."""
    frozen = {}
    for key, value in data.items():
        # Interned, because otherwise field names take much of the memory of a cached session.
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
            # Interned, because lists contain groups, roles and methods that many records share.
            return FrozenList([intern(item) if type(item) is str else _frozen(item) for item in value])
    raise TypeError(f"stored data must be JSON values, not {type(value).__name__}")
