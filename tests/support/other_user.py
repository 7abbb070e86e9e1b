"""A program of another user, where we may start one (as root); else one of ours, which then counts as another's."""

import os
import subprocess
from typing import Any

NOBODY = 65534
OTHER = NOBODY if os.getuid() == 0 else os.getuid()


def said_by(port: int, said: bytes, address: str = "127.0.0.1") -> subprocess.Popen[bytes]:
    """Bash, which says this and then repeats on its standard output what it hears."""
    more: dict[str, Any] = {"user": NOBODY, "group": NOBODY} if os.getuid() == 0 else {}
    script = f"exec 3<>/dev/tcp/{address}/{port}; cat >&3; cat <&3"
    process = subprocess.Popen(["/bin/bash", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", **more)
    assert process.stdin is not None
    process.stdin.write(said)
    process.stdin.close()
    return process
