"""Confinement of a process as a container or a unit of systemd has it: bubblewrap, and the system calls that a unit lets through."""

import ctypes
import ctypes.util
import errno
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO


def confined(*, readable: Sequence[Path], writable: Sequence[Path], filter_of_calls: Path | None = None) -> tuple[str | Path, ...]:
    """What stands before a command: as user 8443 without capabilities, all read-only but `writable` and a /tmp of its own.

    `readable` are below /tmp, and would else not be seen.
    """
    options: list[str | Path] = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    options += [each for path in readable for each in ("--ro-bind", path, path)]
    options += [each for path in writable for each in ("--bind", path, path)]
    options += ["--unshare-user", "--uid", "8443", "--gid", "8443", "--cap-drop", "ALL", "--die-with-parent"]
    if filter_of_calls is None:
        return ("bwrap", *options)
    # The shell opens the file as the descriptor that bubblewrap reads.
    return ("sh", "-c", 'exec 9<"$0"; exec bwrap --seccomp 9 "$@"', filter_of_calls, *options)


def calls_of_unit(unit: str) -> set[str]:
    """Names of the calls that the lines `SystemCallFilter=` let through: the first allows, each with ~ takes away."""
    allowed = set(_group("@default"))
    for line in re.findall(r"^SystemCallFilter=(.+)$", unit, re.MULTILINE):
        named = {call for name in line.removeprefix("~").split() for call in _group(name)}
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


@cache
def _group(name: str) -> frozenset[str]:
    if not name.startswith("@"):
        return frozenset({name})
    told = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, timeout=30, check=True).stdout
    lines = [line.strip() for line in told.splitlines()[1:]]
    return frozenset(call for line in lines if line and not line.startswith("#") for call in _group(line))


def write_filter(path: Path, allowed: set[str]) -> None:
    """Program for the kernel (seccomp(2)) by which every other call ends with EPERM."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp") or "libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(_ERRNO | errno.EPERM))
    for name in sorted(allowed):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # a call of another architecture
            assert library.seccomp_rule_add(context, _ALLOW, number, 0) == 0, name
    with path.open("wb") as file:
        assert library.seccomp_export_bpf(context, file.fileno()) == 0
    library.seccomp_release(context)
