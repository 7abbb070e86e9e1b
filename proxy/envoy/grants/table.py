"""Grant table: memory that gate writes and Envoy reads, and beside it the uses that Envoy writes and gate reads.

Envoy's script (carried.lua) knows it by the same numbers, which `layout` gives it.  A slot's number of its grant is written last and taken
away first, and no slot is filled again before REST is over: who reads looks at that number before and after, so it never acts on half of
what stands there, nor on what was taken away meanwhile.
"""

import fcntl
import mmap
import os
import struct
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

# Bytes of one grant: its head, its key and the headers of its requests.
SLOT, HEAD = 2560, 24
_HEADER_PAGE = 4096
PROFILES, PROFILE = 64, 8192
# Buckets that are looked at for one key.
PROBES = 8
TAIL = 24  # bytes of the end of a key by which it is looked for
# Connections of a client by which one worker carries for one grant; what comes by another is judged, and begins another grant.
MOST_PORTS = 32
_USE_HEAD = struct.Struct("=IIII")  # grant's number, tick, how often, how many ports
_USE = _USE_HEAD.size + 2 * MOST_PORTS
_RINGS = 64  # bytes before the ring of one worker's used slots
REST = 2.0  # seconds
LEASE = 1.0  # seconds for which grants count without a word of gate's

# Who maps it from now on may read it (fcntl(2), F_SEAL_FUTURE_WRITE, which Python has no name for).
_READ_BY_OTHERS = 0x10 | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_HEAD = struct.Struct("=IIdHHI")  # grant's number, profile, end, bytes of the key and of the headers
_HEADER = struct.Struct("=HH")  # bytes of a name and of its value, which follow
_U32, _F64, _BUCKET = struct.Struct("=I"), struct.Struct("=d"), struct.Struct("=II")


def clock() -> float:
    """Seconds since the machine was started, sleep included: the same clock in both processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Slot:
    """Slot of one grant, by whose `number` it is known from those before and after it."""

    position: int
    number: int
    bucket: int


class GrantTable:
    """Table of at most `slots` grants for an Envoy with so many `workers`.  OSError where the machine has no such memory."""

    def __init__(self, slots: int, workers: int):
        self.slots, self._workers = slots, workers
        self._buckets = 1 << (2 * slots - 1).bit_length()
        self._index_at = _HEADER_PAGE
        self._profiles_at = self._index_at + 8 * self._buckets
        self._slots_at = self._profiles_at + PROFILES * PROFILE
        self._size = self._slots_at + SLOT * slots
        self._ring = slots + 1024
        self._worker = _RINGS + 4 * self._ring + _USE * slots
        self.fd, self._memory = _mapped("gate-grants", self._size)
        self.uses_fd, self._uses = _mapped("gate-uses", self._worker * workers)
        with suppress(OSError):  # Linux before 5.1 can't
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _READ_BY_OTHERS)
        self._free = deque(range(slots))
        self._resting: deque[tuple[float, int]] = deque()
        self._number = 0
        self._names: list[int] = []  # bytes of each profile's names that are written
        self._read = [0] * workers

    def __repr__(self) -> str:
        return f"<GrantTable {self.slots - len(self._free) - len(self._resting)} of {self.slots}>"

    def close(self) -> None:
        self._memory.close()
        self._uses.close()
        os.close(self.fd)
        os.close(self.uses_fd)

    def layout(self) -> Mapping[str, Any]:
        """Numbers that Envoy's script must know."""
        places = {"INDEX": self._index_at, "PROFILES": self._profiles_at, "SLOTS": self._slots_at, "SIZE": self._size}
        sizes = {
            "BUCKETS": self._buckets,
            "PROBES": PROBES,
            "TAIL": TAIL,
            "PROFILE": PROFILE,
            "SLOT": SLOT,
            "HEAD": HEAD,
            "MOST_PORTS": MOST_PORTS,
        }
        uses = {"WORKERS": self._workers, "WORKER": self._worker, "RING": self._ring, "RINGS": _RINGS, "USE": _USE}
        return {"GRANTS_FD": self.fd, "USES_FD": self.uses_fd, **places, **sizes, **uses}

    def renew(self, tick: int) -> None:
        """Let all grants count for LEASE from now on, and let each first use after this say so; called again and again."""
        _U32.pack_into(self._memory, 8, tick)
        for number, written in enumerate(self._names):
            _U32.pack_into(self._memory, self._profiles_at + number * PROFILE, written)
        _F64.pack_into(self._memory, 0, clock() + LEASE)

    def void_lease(self) -> None:
        _F64.pack_into(self._memory, 0, 0.0)

    def add_profile(self) -> int | None:
        """Number of another profile, a list of the names of headers; None where there are too many."""
        if len(self._names) >= PROFILES:
            return None
        self._names.append(0)
        return len(self._names) - 1

    def add_names(self, profile: int, text: bytes) -> bool:
        """Add to a profile's list; it counts from the next `renew` on.  False where it is full."""
        written = self._names[profile]
        if written + len(text) > PROFILE - 4:
            return False
        at = self._profiles_at + profile * PROFILE + 4 + written
        self._memory[at : at + len(text)] = text
        self._names[profile] = written + len(text)
        return True

    def put(self, key: bytes, profile: int, ends: float, headers: Mapping[bytes, bytes]) -> Slot | None:
        """Put a grant; None where there is no room for it.  `ends` is `clock`'s."""
        self._rest()
        size = sum(_HEADER.size + len(name) + len(value) for name, value in headers.items())
        if HEAD + len(key) + size > SLOT or not self._free:
            return None
        bucket = next((at for at in self._probed(key) if not _BUCKET.unpack_from(self._memory, at)[1]), None)
        if bucket is None:
            return None
        slot = self._free.popleft()
        self._number = number = self._number % 0xFFFF_FFFF + 1
        at = self._at(slot)
        written = b"".join(_HEADER.pack(len(name), len(value)) + name + value for name, value in headers.items())
        self._memory[at + HEAD : at + HEAD + len(key) + size] = key + written
        _HEAD.pack_into(self._memory, at, 0, profile, ends, len(key), size, 0)
        _U32.pack_into(self._memory, at, number)
        _BUCKET.pack_into(self._memory, bucket, _sum(key), slot + 1)
        return Slot(slot, number, bucket)

    def key(self, slot: Slot) -> bytes:
        """Key of a grant; also of one that was taken back, until its slot is filled again."""
        at = self._at(slot.position)
        length = _HEAD.unpack_from(self._memory, at)[3]
        return bytes(self._memory[at + HEAD : at + HEAD + length])

    def take_back(self, slot: Slot) -> None:
        """Take back a grant, at once, for every worker."""
        _U32.pack_into(self._memory, self._at(slot.position), 0)
        _BUCKET.pack_into(self._memory, slot.bucket, 0, 0)

    def free(self, slot: Slot) -> None:
        """Let the slot of a grant that was taken back be filled again, after a while."""
        self._resting.append((clock() + REST, slot.position))

    def count(self, slot: Slot) -> int:
        """How often a grant was used so far, by all workers; also one that was taken back, until its slot is filled again."""
        return sum(times for _, times, _ in self._uses_of(slot))

    def ports(self, slot: Slot) -> set[int]:
        """The client's ports by which a grant was used so far, by all workers; as `count`."""
        found = set[int]()
        for at, _, known in self._uses_of(slot):
            found.update(struct.unpack_from(f"={min(known, MOST_PORTS)}H", self._uses, at + _USE_HEAD.size))
        return found

    def _uses_of(self, slot: Slot) -> Iterator[tuple[int, int, int]]:
        """Where each worker's uses of this grant stand, how often, and how many ports."""
        first = _RINGS + 4 * self._ring + slot.position * _USE
        for at in range(first, first + self._workers * self._worker, self._worker):
            number, _, times, known = _USE_HEAD.unpack_from(self._uses, at)
            if number == slot.number:
                yield at, times, known

    def used(self) -> Iterator[int]:
        """Slots whose grants were used since the last call, perhaps several times each."""
        for worker in range(self._workers):
            at = worker * self._worker
            written = _U32.unpack_from(self._uses, at)[0]
            for position in range(max(self._read[worker], written - self._ring), written):
                slot = _U32.unpack_from(self._uses, at + _RINGS + 4 * (position % self._ring))[0]
                if slot < self.slots:
                    yield slot
            self._read[worker] = written

    def _at(self, slot: int) -> int:
        return self._slots_at + slot * SLOT

    def _probed(self, key: bytes) -> Iterator[int]:
        first = _sum(key)
        return (self._index_at + 8 * ((first + step) & (self._buckets - 1)) for step in range(PROBES))

    def _rest(self) -> None:
        now = clock()
        while self._resting and self._resting[0][0] <= now:
            self._free.append(self._resting.popleft()[1])


def _sum(key: bytes) -> int:
    """CRC-32 of the address and the host that a key begins with and of its end, which is random: less to read than the whole.

    Without a companion one session's keys end alike at every host of `cookie_domain`.
    """
    return zlib.crc32(b"|".join(key.split(b"|", 2)[:2]) + key[-TAIL:])


def _mapped(name: str, size: int) -> tuple[int, mmap.mmap]:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    return fd, mmap.mmap(fd, size)
