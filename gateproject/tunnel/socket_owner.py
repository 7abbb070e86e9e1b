"""User who owns the other end of a loopback connection, from /proc/net/tcp (Linux, proc_net_tcp); elsewhere nobody knows.

Without it another user of the machine, who sees `state` in the browser's arguments, brings a token of their own, and the person goes on
as them: tests/unit/gateproject/tunnel/test_sign_in.py fails.
"""

import contextlib
import socket
import sys
from pathlib import Path
from typing import Any

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
ROOT = 0


def is_of_another_user(connection: Any, uid: int) -> bool:
    """Whether the other end of `connection`, a socket accepted over IPv4, is another user's.  Where nobody can tell, it is not.

    Root is nobody else: it may be what forwards our browser's connection, and needs no tricks.
    """
    owners = _owners(connection.getpeername(), connection.getsockname())
    return owners is not None and not owners & {ROOT, uid}


def _owners(here: tuple[str, int], there: tuple[str, int]) -> set[int] | None:
    """Of the socket from `here` to `there`, in whichever table; none of one that was closed, whose row names no owner any more."""
    wanted = {(_written(*here, is_mapped), _written(*there, is_mapped)) for is_mapped in (False, True)}
    owners, is_known = set(), False
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for row in table.read_text("ascii").splitlines()[1:]:
                is_known, columns = True, row.split()
                if (columns[1], columns[2]) in wanted and columns[3] == _ESTABLISHED:
                    owners.add(int(columns[7]))
    return owners if is_known else None


def _written(address: str, port: int, is_mapped: bool) -> str:
    """Each 32 bits of the address as a number of this machine; a socket for IPv6 has IPv4 addresses mapped (RFC 4291 2.5.5.2)."""
    packed = (bytes(10) + b"\xff\xff" if is_mapped else b"") + socket.inet_aton(address)
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
