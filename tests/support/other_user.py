"""A process of another user if the tests run as root, else of the same user, which is then treated as another."""

import os
import subprocess
from typing import Any

OTHER_UID = 65534
OTHER = OTHER_UID if os.getuid() == 0 else os.getuid()


def echo_process(port: int, data: bytes, address: str = "127.0.0.1") -> subprocess.Popen[bytes]:
    """Return a Bash process that prints this and then echoes its standard input."""
    more: dict[str, Any] = {"user": OTHER_UID, "group": OTHER_UID} if os.getuid() == 0 else {}
    script = f"exec 3<>/dev/tcp/{address}/{port}; cat >&3; cat <&3"
    process = subprocess.Popen(["/bin/bash", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", **more)
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.close()
    return process
