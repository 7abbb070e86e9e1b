"""Envoy's access log, read by gate: a line for the end of each request that Envoy carried, by a pipe that it has inherited."""

import asyncio
import os
from collections.abc import Callable, Mapping

import structlog

log = structlog.get_logger(__name__)

# As long may a line wait in Envoy.
FLUSH_ARGUMENTS = ("--file-flush-interval-msec", "10")
_LONGEST = 64 * 1024  # bytes of one line


class EnvoyAccessLog:
    """Envoy's access log.  `readers` are told the lines, by their first word; `fd` is Envoy's end of the pipe, under the same number."""

    def __init__(self, readers: Mapping[str, Callable[[str], None]]):
        self._readers = readers
        self._read, self.fd = os.pipe()

    def __repr__(self) -> str:
        return f"<EnvoyAccessLog {self.path}>"

    @property
    def path(self) -> str:
        """Its path, as Envoy opens it."""
        return f"/proc/self/fd/{self.fd}"

    async def run(self) -> None:
        reader = asyncio.StreamReader(limit=_LONGEST)
        file = os.fdopen(os.dup(self._read), "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        try:
            rest = b""
            while some := await reader.read(_LONGEST):
                *lines, rest = (rest + some).split(b"\n")
                for line in lines:
                    self.tell(line.decode("latin-1"))
                rest = rest[:_LONGEST]
        finally:
            transport.close()

    def tell(self, line: str) -> None:
        """Tell of one request.  One that can't be told keeps none of the others from being told."""
        first, _, rest = line.partition(" ")
        reader = self._readers.get(first)
        try:
            if reader is None:
                log.warning("unparsable envoy access log line", line=line[:200])
            else:
                reader(rest)
        except Exception:
            log.exception("envoy access log handler failed")

    def close(self) -> None:
        os.close(self._read)
        os.close(self.fd)
