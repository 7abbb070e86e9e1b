"""How does stored data stay what it was?  JSON values as dicts and lists that refuse to be changed."""

from collections.abc import Mapping
from typing import Any, NoReturn


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("stored data can't be changed in place: put a changed copy")


# Subclasses of dict and list, not proxies and tuples: dataclasses.asdict, json and isinstance must go on working.
class FrozenDict(dict[str, Any]):
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


def frozen_data(data: Mapping[str, Any]) -> FrozenDict:
    """A deep copy that can't be changed; TypeError for what JSON can't say."""
    if not all(isinstance(key, str) for key in data):
        raise TypeError("keys of stored data must be text")
    return FrozenDict({key: _frozen(value) for key, value in data.items()})


def _frozen(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str() | FrozenDict() | FrozenList():
            return value
        case Mapping():
            return frozen_data(value)
        case list() | tuple():
            return FrozenList([_frozen(item) for item in value])
    raise TypeError(f"stored data must be JSON values, not {type(value).__name__}")
