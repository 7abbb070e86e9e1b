"""Number of CPUs available to this process, by its affinity and the quotas of its control groups."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def available_cpus(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> int:
    """Return the number of CPUs, at least 1. A fractional quota is rounded up, so that no CPU time is unused."""
    shares = [math.ceil(share) for share in _quotas(membership, groups)]
    return max(1, min([len(os.sched_getaffinity(0)), *shares]))


def _quotas(membership: Path, groups: Path) -> Iterator[float]:
    """Yield the CPU quotas of the control group and its parents, of version 2 (`cpu.max`) and version 1."""
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = groups / controllers
            # In a container the path may be the host's, while the container's group is the root.
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
