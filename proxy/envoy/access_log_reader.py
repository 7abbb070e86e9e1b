"""Reader of Envoy's access log: one line per completed request, over a pipe that Envoy inherits."""

import asyncio
import os
from collections.abc import Callable, Mapping

import structlog

log = structlog.get_logger(__name__)

# Envoy buffers lines for at most this long.
FLUSH_ARGUMENTS = ("--file-flush-interval-msec", "10")
_MAX_LINE_BYTES = 64 * 1024


class AccessLogReader:
    """Access log reader. `readers` handle the lines by their first word; `fd` is Envoy's end of the pipe, with the same number in Envoy."""

    def __init__(self, readers: Mapping[str, Callable[[str], None]]):
        self._readers = readers
        self._read, self.fd = os.pipe()

    def __repr__(self) -> str:
        return f"<AccessLogReader {self.path}>"

    @property
    def path(self) -> str:
        """Path of the pipe in Envoy."""
        return f"/proc/self/fd/{self.fd}"

    async def run(self) -> None:
        reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
        file = os.fdopen(os.dup(self._read), "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        try:
            rest = b""
            while data := await reader.read(_MAX_LINE_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.handle_line(line.decode("latin-1"))
                rest = rest[:_MAX_LINE_BYTES]
        finally:
            transport.close()

    def handle_line(self, line: str) -> None:
        """Handle one line. An error is logged and does not affect the other lines."""
        kind, _, rest = line.partition(" ")
        reader = self._readers.get(kind)
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
