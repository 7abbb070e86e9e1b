"""Caches with a maximum number of entries and a maximum size in bytes.

Clients and providers choose names, addresses, tokens and claims, and therefore their length.
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
    """Return an `lru_cache` decorator that caches only calls whose arguments are at most `max_key_length` long together.

    `size` returns the length of all arguments, in bytes or characters; the default, `len`, is for a single argument. A result may exceed
    its arguments by a few hundred bytes at most, because only the arguments are measured.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        cached = lru_cache(maxsize=max_entries)(function)

        def call_single(argument: Any) -> T:
            return cached(argument) if len(argument) <= max_key_length else function(argument)

        def call_multiple(*arguments: Any) -> T:
            return cached(*arguments) if size(*arguments) <= max_key_length else function(*arguments)

        short: Any = update_wrapper(call_single if size is len else call_multiple, function)
        short.cache_info = cached.cache_info
        typed: Callable[..., T] = short
        return typed

    return decorate


class MemoCache(dict[K, V]):
    """Dictionary that computes and stores the result of a function of one argument; a cached look-up makes no Python call.

    It stores arguments of at most `max_key_length` each, up to `max_entries` and `max_key_bytes` in total, and clears itself when full.
    `size` returns the length of an argument. A result may exceed its argument by a few hundred bytes at most.
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
        self._max_entries, self._max_key_length, self._size = max_entries, max_key_length, size
        self._max_bytes = max_entries * max_key_length if max_key_bytes is None else max_key_bytes
        self.bytes = 0

    def __missing__(self, argument: K) -> V:
        result, size = self._function(argument), self._size(argument)
        if size > self._max_key_length:
            return result
        if len(self) >= self._max_entries or self.bytes + size > self._max_bytes:
            self.clear()
            self.bytes = 0
        self[argument] = result
        self.bytes += size
        return result


def total_length(*parts: Any) -> int:
    """Return the total length of texts and nested tuples of texts; any other value counts as 8."""
    return sum(len(part) if isinstance(part, str | bytes) else total_length(*part) if isinstance(part, tuple) else 8 for part in parts)


class BoundedCache(Generic[K, V]):
    """Mapping with at most `max_entries` values and `max_bytes` in total; the oldest entries are evicted first.

    A value larger than a hundredth of `max_bytes` is not stored.
    """

    def __init__(self, max_entries: int, max_bytes: int):
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._values: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self.bytes = 0
        # Bound directly, because most look-ups are hits and a Python-level method costs more than the look-up itself.
        self.get: Callable[[K], V | None] = self._values.get

    def __repr__(self) -> str:
        return f"<BoundedCache {len(self._values)} of {self.bytes} bytes>"

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def put(self, key: K, value: V, size: int) -> None:
        """Store a value; `size` is in bytes and includes the key."""
        self.pop(key)
        if size * 100 > self._max_bytes:
            return
        self._values[key] = value
        self._sizes[key] = size
        self.bytes += size
        while len(self._values) > self._max_entries or self.bytes > self._max_bytes:
            evicted, _ = self._values.popitem(last=False)
            self.bytes -= self._sizes.pop(evicted)

    def pop(self, key: K) -> None:
        if key in self._values:
            del self._values[key]
            self.bytes -= self._sizes.pop(key)

    def clear(self) -> None:
        self._values.clear()
        self._sizes.clear()
        self.bytes = 0


def estimate_size(value: Any) -> int:
    """Return the approximate size of a value in bytes: texts, numbers, collections and dataclasses. Shared objects count each time."""
    total = getsizeof(value)
    if isinstance(value, Mapping):
        return total + sum(estimate_size(key) + estimate_size(item) for key, item in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return total + sum(map(estimate_size, value))
    if is_dataclass(value):
        return total + sum(estimate_size(getattr(value, field.name)) for field in fields(value))
    return total
