"""CPUs available to a process, from the files of its control group."""

import os
from pathlib import Path

import pytest

from foundation.system.cpus import available_cpus


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/\n", {}, 64),
        ("0::/\n", {"cpu.max": "max 100000"}, 64),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2),  # of the group above
        ("0::/a\n", {"a/cpu.max": "150000 100000"}, 2),  # the half is used, too
        ("0::/elsewhere\n", {"cpu.max": "300000 100000"}, 3),  # a container that is shown the machine's name of its group
        ("4:cpu,cpuacct:/x\n", {"cpu,cpuacct/x/cpu.cfs_quota_us": "400000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"}, 4),
        ("4:cpu,cpuacct:/x\n", {"cpu,cpuacct/x/cpu.cfs_quota_us": "-1", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"}, 64),
        ("3:memory:/x\n", {"memory/x/cpu.max": "100000 100000"}, 64),
        ("0::/\n", {"cpu.max": "10000 100000"}, 1),
        ("0::/\n", {"cpu.max": "nonsense"}, 64),
    ],
)
def test_a_quota_bounds_the_cores(
    membership: str, files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    (tmp_path / "membership").write_text(membership)
    for name, content in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert available_cpus(tmp_path / "membership", tmp_path / "groups") == cores


def test_default_is_the_cpu_affinity_of_the_process(tmp_path: Path) -> None:
    assert available_cpus(tmp_path / "absent", tmp_path) == len(os.sched_getaffinity(0))
