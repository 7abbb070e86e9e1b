"""Child processes of the demo: start, identify, watch and stop them."""

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STOP_TIMEOUT = 10.0
# Everything else stays out: gate reads its settings from the environment, too, and a stray ADDRESS there would win over the file.
INHERITED_VARIABLES = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE", "LD_LIBRARY_PATH"),
    "METRICS_ADDRESS",  # where the health check of an image asks
)


class DemoError(Exception):
    """The demo can't start or go on; the message says what to do."""


class Child:
    """A running program whose standard error goes to `log_file`; so does its standard output, unless `announces` ports in JSON there."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_file: Path):
        self.name = name
        self.process = process
        self.log_file = log_file

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        folder: Path,
        log_file: Path,
        environ: Mapping[str, str],
        announces: bool = False,
        **more: str,
    ) -> "Child":
        with open(os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                env={key: environ[key] for key in INHERITED_VARIABLES if key in environ} | {"PYTHONUNBUFFERED": "1", **more},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if announces else log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the whole foreground group; the children are stopped in order instead
            )
        return cls(name, process, log_file)

    async def announcement(self, timeout: float = 30) -> dict[str, Any]:
        """The first line of its standard output, which only our own child can write."""
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), timeout)
            return json.loads(line)
        except (TimeoutError, ValueError) as error:
            raise DemoError(f"{self.name} did not start:\n{self.last_lines()}") from error

    async def ended(self) -> DemoError:
        status = await self.process.wait()
        return DemoError(f"{self.name} ended by itself (status {status}); the end of {self.log_file}:\n{self.last_lines()}")

    def last_lines(self, count: int = 20) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()[-count:]
        return "\n".join(f"    {line}" for line in lines) or "    (it wrote nothing)"

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), STOP_TIMEOUT)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


def require_free_port(port: int, what: str, setting: str) -> None:
    """Raises DemoError if a process listens on it, on IPv6 too: browsers try `localhost` there first."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise DemoError(
                        f"port {port} for {what} is taken by another program; choose another: make demo {setting}={port + 1}"
                    ) from None
                if error.errno == errno.EACCES:
                    raise DemoError(f"port {port} for {what} needs root; choose one above 1023: make demo {setting}=8443") from None
                # No IPv6 here, so no process listens on it.
