"""Bounded caches of what others say: by number and by bytes, so that nobody's words fill the memory.

Whoever may choose a name, an address, a token or a claim chooses how long it is, too.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache, update_wrapper
from sys import getsizeof
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

MIB = 1024 * 1024


def bounded_lru_cache(
    max_entries: int, *, max_key_length: int, size: Callable[..., int] = len
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """`lru_cache` for at most `most` calls whose arguments are no longer than `longest` together; any other is worked out anew.

    `size` gives the length of all arguments, in bytes or characters; `len` is for one alone.  What comes of them must not be longer
    than they are by more than a few hundred bytes.
    """

    def remembering(function: Callable[..., T]) -> Callable[..., T]:
        cached = lru_cache(maxsize=max_entries)(function)

        def of_one(argument: Any) -> T:
            return cached(argument) if len(argument) <= max_key_length else function(argument)

        def of_several(*arguments: Any) -> T:
            return cached(*arguments) if size(*arguments) <= max_key_length else function(*arguments)

        short: Any = update_wrapper(of_one if size is len else of_several, function)
        short.cache_info = cached.cache_info
        remembers: Callable[..., T] = short
        return remembers

    return remembering


class MemoCache(dict[K, V]):
    """Results of a function of one argument, by the argument: `remembered[argument]`, which is no call where it is known.

    For at most `most` arguments, each no longer than `longest`, and `most_bytes` of arguments; where there are more, all are forgotten.
    `size` gives the length of one.  What comes of it must not be longer than it by more than a few hundred bytes.
    """

    def __init__(
        self,
        function: Callable[[K], V],
        max_entries: int,
        *,
        max_key_length: int,
        max_key_bytes: int | None = None,
        size: Callable[[Any], int] = len,
    ):
        super().__init__()
        self._function = function
        self._most, self._longest, self._size = max_entries, max_key_length, size
        self._most_bytes = max_entries * max_key_length if max_key_bytes is None else max_key_bytes
        self.bytes = 0

    def __missing__(self, argument: K) -> V:
        result, size = self._function(argument), self._size(argument)
        if size > self._longest:
            return result
        if len(self) >= self._most or self.bytes + size > self._most_bytes:
            self.clear()
            self.bytes = 0
        self[argument] = result
        self.bytes += size
        return result


def total_length(*parts: Any) -> int:
    """The length of texts, and of tuples of them, however deep."""
    return sum(len(part) if isinstance(part, str | bytes) else total_length(*part) if isinstance(part, tuple) else 8 for part in parts)


class BoundedCache(Generic[K, V]):
    """A mapping of at most `most` values that weigh no more than `most_bytes` together; what was put longest ago makes room.

    One that weighs more than a hundredth of all is not kept.
    """

    def __init__(self, max_entries: int, max_bytes: int):
        self._most, self._most_bytes = max_entries, max_bytes
        self._held: OrderedDict[K, V] = OrderedDict()
        self._weights: dict[K, int] = {}
        self.bytes = 0
        # No method: most of what a request asks is known, and each call of ours costs it more than the look does.
        self.get: Callable[[K], V | None] = self._held.get

    def __repr__(self) -> str:
        return f"<BoundedCache {len(self._held)} of {self.bytes} bytes>"

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: K) -> bool:
        return key in self._held

    def put(self, key: K, value: V, size: int) -> None:
        """Hold a value; `weight` in bytes, with the key's."""
        self.pop(key)
        if size * 100 > self._most_bytes:
            return
        self._held[key] = value
        self._weights[key] = size
        self.bytes += size
        while len(self._held) > self._most or self.bytes > self._most_bytes:
            gone, _ = self._held.popitem(last=False)
            self.bytes -= self._weights.pop(gone)

    def pop(self, key: K) -> None:
        if key in self._held:
            del self._held[key]
            self.bytes -= self._weights.pop(key)

    def clear(self) -> None:
        self._held.clear()
        self._weights.clear()
        self.bytes = 0


def estimate_size(value: Any) -> int:
    """Bytes of a value and all that it holds: texts, numbers, collections and dataclasses.  What is shared counts each time."""
    total = getsizeof(value)
    if isinstance(value, Mapping):
        return total + sum(estimate_size(key) + estimate_size(item) for key, item in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return total + sum(map(estimate_size, value))
    if is_dataclass(value):
        return total + sum(estimate_size(getattr(value, field.name)) for field in fields(value))
    return total
