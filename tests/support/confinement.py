"""Confinement of a process like a container or a systemd unit: bubblewrap, and the system calls that a unit allows."""

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
    """Return the prefix of a command: user 8443 without capabilities, read-only except for `writable` and a private /tmp.

    `readable` are paths below /tmp, which would otherwise be hidden.
    """
    options: list[str | Path] = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    options += [each for path in readable for each in ("--ro-bind", path, path)]
    options += [each for path in writable for each in ("--bind", path, path)]
    options += ["--unshare-user", "--uid", "8443", "--gid", "8443", "--cap-drop", "ALL", "--die-with-parent"]
    if filter_of_calls is None:
        return ("bwrap", *options)
    # The shell opens the file as the descriptor from which bubblewrap reads.
    return ("sh", "-c", 'exec 9<"$0"; exec bwrap --seccomp 9 "$@"', filter_of_calls, *options)


def calls_of_unit(unit: str) -> set[str]:
    """Return the system calls that the lines `SystemCallFilter=` allow: the first allows, each with ~ removes."""
    allowed = set(_group("@default"))
    for line in re.findall(r"^SystemCallFilter=(.+)$", unit, re.MULTILINE):
        named = {call for name in line.removeprefix("~").split() for call in _group(name)}
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


@cache
def _group(name: str) -> frozenset[str]:
    if not name.startswith("@"):
        return frozenset({name})
    output = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, timeout=30, check=True).stdout
    lines = [line.strip() for line in output.splitlines()[1:]]
    return frozenset(call for line in lines if line and not line.startswith("#") for call in _group(line))


def write_filter(path: Path, allowed: set[str]) -> None:
    """Write a seccomp(2) filter that fails every other call with EPERM."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp") or "libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(_ERRNO | errno.EPERM))
    for name in sorted(allowed):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # a system call of another architecture
            assert library.seccomp_rule_add(context, _ALLOW, number, 0) == 0, name
    with path.open("wb") as file:
        assert library.seccomp_export_bpf(context, file.fileno()) == 0
    library.seccomp_release(context)
