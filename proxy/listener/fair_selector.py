"""Fair selector: which connection comes first where a thousand are ready at once.

asyncio handles all that is ready before it looks again, so a burst of slow clients (two thousand pieces of heads, two thousand ends)
is one long turn of the loop, and everybody else waits for it.  Here a connection that has not had an answer yet, that sends its request
in drops, or that does not read, stands behind: of those, a turn takes few.
"""

import asyncio
import math
import select as polls
import selectors
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from proxy.listener import listener_limits
from proxy.listener.deadline import Deadline

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

# Of those behind in one turn; as many as of all others, where those are more, so that nobody starves.
FEW = 4
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class FairSelector(selectors.BaseSelector):
    """Selector of two: the second, of those behind, is one descriptor of the first.  The kernel serves each of them in order."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._map = _Registered(self._keys)
        self._first, self._behind = polls.epoll(), polls.epoll()
        self._demoted: set[int] = set()
        self._first.register(self._behind.fileno(), polls.EPOLLIN)

    def demote(self, descriptor: int) -> None:
        if descriptor not in self._demoted:
            self._demoted.add(descriptor)
            self._move(descriptor, self._first, self._behind)

    def promote(self, descriptor: int) -> None:
        """Give a descriptor priority, a closed one too: the next connection of this number begins without a past."""
        if descriptor in self._demoted:
            self._demoted.discard(descriptor)
            self._move(descriptor, self._behind, self._first)

    def is_demoted(self, descriptor: int) -> bool:
        return descriptor in self._demoted

    def register(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        descriptor = _number(fileobj)
        if descriptor in self._keys:
            raise KeyError(f"{fileobj!r} is already registered")
        self._of(descriptor).register(descriptor, _mask(events))
        key = self._keys[descriptor] = selectors.SelectorKey(fileobj, descriptor, events, data)
        return key

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        key = self._keys.pop(_number(fileobj))
        with suppress(OSError):  # closed already, which the kernel has noticed
            self._of(key.fd).unregister(key.fd)
        return key

    def modify(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        key = self.get_key(fileobj)
        if events != key.events:
            self._of(key.fd).modify(key.fd, _mask(events))
        key = self._keys[key.fd] = key._replace(events=events, data=data)
        return key

    def get_key(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self._keys[_number(fileobj)]

    def get_map(self) -> Mapping["FileDescriptorLike", selectors.SelectorKey]:
        return self._map

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Ready descriptors; `timeout` in seconds, None for ever; rounded up, so that nobody wakes before a timer is due."""
        wait = -1 if timeout is None else 0 if timeout <= 0 else math.ceil(timeout * 1e3) * 1e-3
        try:
            found = self._first.poll(wait, len(self._keys) + 1)
        except InterruptedError:
            return []
        ready = self._ready(found)  # those behind are one descriptor, which nobody has registered
        if len(found) != len(ready):
            ready += self._ready(self._behind.poll(0, max(FEW, len(ready))))
        return ready

    def close(self) -> None:
        self._first.close()
        self._behind.close()
        self._keys.clear()

    def _ready(self, found: list[tuple[int, int]]) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for descriptor, event in found:
            key = self._keys.get(descriptor)
            if key is not None:
                # An error or a hang-up is told to whoever waits, for whatever.
                events = (_WRITE if event & ~polls.EPOLLIN else 0) | (_READ if event & ~polls.EPOLLOUT else 0)
                ready.append((key, events & key.events))
        return ready

    def _of(self, descriptor: int) -> polls.epoll:
        return self._behind if descriptor in self._demoted else self._first

    def _move(self, descriptor: int, source: polls.epoll, target: polls.epoll) -> None:
        key = self._keys.get(descriptor)
        if key is not None:
            with suppress(OSError):
                source.unregister(descriptor)
                target.register(descriptor, _mask(key.events))


class _Registered(Mapping["FileDescriptorLike", selectors.SelectorKey]):
    """What is registered, by descriptor or by its file: asyncio asks for either, by `get_key` before Python 3.13 and by `get_map` since."""

    __slots__ = ("_keys",)

    def __init__(self, keys: dict[int, selectors.SelectorKey]):
        self._keys = keys

    def __getitem__(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self._keys[_number(fileobj)]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)


class Priority:
    """Priority of one connection; behind at first.  Without a FairSelector (another loop, another system) all stand first."""

    __slots__ = ("_descriptor", "_is_demoted", "_selector")

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int | None):
        selector = getattr(loop, "_selector", None)
        self._selector = selector if isinstance(selector, FairSelector) and descriptor is not None else None
        self._descriptor = -1 if descriptor is None else descriptor
        self._is_demoted = False
        self.demote()

    def demote(self) -> None:
        if not self._is_demoted and self._selector is not None:
            self._is_demoted = True
            self._selector.demote(self._descriptor)

    def promote(self) -> None:
        if self._is_demoted and self._selector is not None:
            self._is_demoted = False
            self._selector.promote(self._descriptor)

    def after_body_bytes(self, size: int) -> None:
        """Set the priority after so many bytes of a body came at once, and it has not ended."""
        if size < listener_limits.MIN_BODY_CHUNK_BYTES:
            self.demote()
        else:
            self.promote()


class SlowReader:
    """Slow reader, a client that does not read: soon it stands behind, and at last somebody gives up."""

    __slots__ = ("_deadline", "_priority")

    def __init__(self, loop: asyncio.AbstractEventLoop, priority: Priority):
        self._deadline = Deadline(loop)
        self._priority = priority

    def begin(self, seconds: float, give_up: Callable[[], None]) -> None:
        first = min(listener_limits.SLOW_READER_SECONDS, seconds)
        self._deadline.start(first, partial(self._go_on, seconds - first, give_up))

    def end(self) -> None:
        self._deadline.close()
        self._priority.promote()

    def _go_on(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._priority.demote()
        self._deadline.start(seconds, give_up)


def install_fair_selector(loop: asyncio.AbstractEventLoop) -> None:
    """Install this selector in a loop that is not running; nothing happens where it has none or the system no epoll."""
    selector = getattr(loop, "_selector", None)
    if not isinstance(selector, selectors.BaseSelector) or isinstance(selector, FairSelector) or not hasattr(polls, "epoll"):
        return
    fair = FairSelector()
    for key in list(selector.get_map().values()):
        fair.register(key.fileobj, key.events, key.data)
    loop._selector = fair  # type: ignore[attr-defined]
    selector.close()


def _number(fileobj: "FileDescriptorLike") -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()


def _mask(events: int) -> int:
    return (polls.EPOLLIN if events & _READ else 0) | (polls.EPOLLOUT if events & _WRITE else 0)
