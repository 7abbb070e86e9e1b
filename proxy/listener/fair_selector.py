"""Selector with two priorities, for an event loop on which a thousand connections are ready at once.

asyncio handles all ready descriptors before it polls again, so a burst of slow clients makes one long turn of the loop that delays
all other connections. Connections that have not been answered yet, that send slowly or that do not read are low priority; each turn
serves only a few of them.
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

# Low-priority descriptors per turn; if more others are ready, as many as those, so that low priority never starves.
LOW_PRIORITY_PER_TURN = 4
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class FairSelector(selectors.BaseSelector):
    """Selector over two epoll instances: the low-priority one is a descriptor in the other. The kernel serves each of them in order."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._map = _Registered(self._keys)
        self._high_priority, self._low_priority = polls.epoll(), polls.epoll()
        self._demoted: set[int] = set()
        self._high_priority.register(self._low_priority.fileno(), polls.EPOLLIN)

    def demote(self, descriptor: int) -> None:
        if descriptor not in self._demoted:
            self._demoted.add(descriptor)
            self._move(descriptor, self._high_priority, self._low_priority)

    def promote(self, descriptor: int) -> None:
        """Give a descriptor high priority, even a closed one, so that the next connection with this number does not inherit the low one."""
        if descriptor in self._demoted:
            self._demoted.discard(descriptor)
            self._move(descriptor, self._low_priority, self._high_priority)

    def is_demoted(self, descriptor: int) -> bool:
        return descriptor in self._demoted

    def register(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        descriptor = _number(fileobj)
        if descriptor in self._keys:
            raise KeyError(f"{fileobj!r} is already registered")
        self._poll_for(descriptor).register(descriptor, _mask(events))
        key = self._keys[descriptor] = selectors.SelectorKey(fileobj, descriptor, events, data)
        return key

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        key = self._keys.pop(_number(fileobj))
        with suppress(OSError):  # already closed, so the kernel has removed it
            self._poll_for(key.fd).unregister(key.fd)
        return key

    def modify(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        key = self.get_key(fileobj)
        if events != key.events:
            self._poll_for(key.fd).modify(key.fd, _mask(events))
        key = self._keys[key.fd] = key._replace(events=events, data=data)
        return key

    def get_key(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self._keys[_number(fileobj)]

    def get_map(self) -> Mapping["FileDescriptorLike", selectors.SelectorKey]:
        return self._map

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return ready descriptors.

        `timeout` is in seconds, None means no timeout. It is rounded up, so that the loop does not wake before a timer is due.
        """
        wait = -1 if timeout is None else 0 if timeout <= 0 else math.ceil(timeout * 1e3) * 1e-3
        try:
            polled = self._high_priority.poll(wait, len(self._keys) + 1)
        except InterruptedError:
            return []
        ready = self._ready(polled)  # the low-priority epoll is one descriptor without a key
        if len(polled) != len(ready):
            ready += self._ready(self._low_priority.poll(0, max(LOW_PRIORITY_PER_TURN, len(ready))))
        return ready

    def close(self) -> None:
        self._high_priority.close()
        self._low_priority.close()
        self._keys.clear()

    def _ready(self, polled: list[tuple[int, int]]) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for descriptor, event in polled:
            key = self._keys.get(descriptor)
            if key is not None:
                # An error or hang-up is reported for reading and writing.
                events = (_WRITE if event & ~polls.EPOLLIN else 0) | (_READ if event & ~polls.EPOLLOUT else 0)
                ready.append((key, events & key.events))
        return ready

    def _poll_for(self, descriptor: int) -> polls.epoll:
        return self._low_priority if descriptor in self._demoted else self._high_priority

    def _move(self, descriptor: int, source: polls.epoll, target: polls.epoll) -> None:
        key = self._keys.get(descriptor)
        if key is not None:
            with suppress(OSError):
                source.unregister(descriptor)
                target.register(descriptor, _mask(key.events))


class _Registered(Mapping["FileDescriptorLike", selectors.SelectorKey]):
    """Registered keys by descriptor or file object.

    asyncio looks up both, with `get_key` before Python 3.13 and with `get_map` since.
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: dict[int, selectors.SelectorKey]):
        self._keys = keys

    def __getitem__(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self._keys[_number(fileobj)]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)


class PollPriority:
    """Polling priority of one connection, initially low. Without a FairSelector (another event loop or system) it has no effect."""

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

    def on_body_bytes(self, size: int) -> None:
        """Set the priority by the size of a chunk of an incomplete body."""
        if size < listener_limits.MIN_BODY_CHUNK_BYTES:
            self.demote()
        else:
            self.promote()


class WriteStallTimer:
    """Timer of a client that does not read: it lowers the priority first, and calls back after the timeout."""

    __slots__ = ("_deadline", "_priority")

    def __init__(self, loop: asyncio.AbstractEventLoop, priority: PollPriority):
        self._deadline = Deadline(loop)
        self._priority = priority

    def start(self, seconds: float, give_up: Callable[[], None]) -> None:
        first = min(listener_limits.SLOW_READER_SECONDS, seconds)
        self._deadline.start(first, partial(self._demote_and_wait, seconds - first, give_up))

    def stop(self) -> None:
        self._deadline.close()
        self._priority.promote()

    def _demote_and_wait(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._priority.demote()
        self._deadline.start(seconds, give_up)


def install_fair_selector(loop: asyncio.AbstractEventLoop) -> None:
    """Install this selector in an event loop that is not running. Does nothing if the loop has no selector or the system no epoll."""
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
