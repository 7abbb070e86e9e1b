"""Cores that this process may use: those that it may be scheduled on, as far as its control group lets it have their time."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def available_cpus(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> int:
    """Cores, at least 1.  A quota of one and a half is two: the half would lie idle."""
    shares = [math.ceil(share) for share in _quotas(membership, groups)]
    return max(1, min([len(os.sched_getaffinity(0)), *shares]))


def _quotas(membership: Path, groups: Path) -> Iterator[float]:
    """Quotas in cores of the control group and of all above it, in version 2 (`cpu.max`) and in version 1."""
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = groups / controllers
            # In a container the path may be that of the machine, and its own group stands at the top.
            for group in dict.fromkeys((top / path.lstrip("/"), *(top / path.lstrip("/")).parents)):
                if group.is_relative_to(top):
                    yield from _quota(group)


def _quota(group: Path) -> Iterator[float]:
    with suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        if quota != "max":
            yield int(quota) / int(period)
    with suppress(OSError, ValueError):
        allowed = int((group / "cpu.cfs_quota_us").read_text())
        if allowed > 0:
            yield allowed / int((group / "cpu.cfs_period_us").read_text())
