"""CPU time and memory of processes, from the kernel."""

import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_GONE = (FileNotFoundError, ProcessLookupError)  # the state of a process that has ended
_TICKS = os.sysconf("SC_CLK_TCK")


def family(id: int) -> list[int]:
    """Return the process and all its descendants."""
    children: list[int] = []
    with suppress(*_GONE):
        for task in Path(f"/proc/{id}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return [id, *(member for child in children for member in family(child))]


def cpu_seconds(id: int) -> float:
    """Return user and system CPU time of the process and its descendants, including those that have ended."""
    return sum(map(cpu_seconds_with_children, family(id)))


def cpu_seconds_with_children(id: int) -> float:
    """Return CPU time including waited-for children, so that an ended child is counted in its parent."""
    with suppress(*_GONE):
        fields = Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def resident(id: int, field: str = "VmRSS") -> int:
    """Return private memory in bytes; `field` of /proc/PID/status may be the peak, "VmHWM"."""
    return int(re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{id}/status").read_text(), re.MULTILINE)[1]) << 10


def mebibytes(id: int) -> float:
    """Return the memory of the process and its descendants; shared memory is divided among its users (PSS)."""
    return sum(_kibibytes(Path(f"/proc/{each}/smaps_rollup").read_text()) for each in family(id)) / 1024


def _kibibytes(rollup: str) -> int:
    return int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)[1])


@dataclass(frozen=True, slots=True)
class CoreTime:
    """Seconds since boot of some cores in total."""

    busy: float  # used by any process, or stolen by the host of a virtual machine
    all: float

    @classmethod
    def sample(cls, cores: Collection[int]) -> "CoreTime":
        return cls.read(Path("/proc/stat").read_text(), cores)

    @classmethod
    def read(cls, text: str, cores: Collection[int]) -> "CoreTime":
        busy = everything = 0
        for core in cores:
            found = re.search(rf"^cpu{core} (.+)$", text, re.MULTILINE)
            # user nice system idle iowait irq softirq steal; guest time is part of the first two.
            user, nice, system, idle, waiting, irq, softirq, stolen = map(int, found[1].split()[:8])
            used = user + nice + system + irq + softirq + stolen
            busy, everything = busy + used, everything + used + idle + waiting
        return cls(busy / _TICKS, everything / _TICKS)

    def background_load(self, earlier: "CoreTime", measured_load: float) -> float:
        """Return the share (0 to 1) of CPU time of other processes.  `measured_load` is the CPU time of the measured processes."""
        elapsed = self.all - earlier.all
        return max(0.0, self.busy - earlier.busy - measured_load) / elapsed if elapsed else 0.0
