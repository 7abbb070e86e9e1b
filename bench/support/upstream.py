"""HTTP upstream of benchmarks: keeps connections open, discards bodies, and responds as the benchmark defines."""

import asyncio
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

CHUNK_BYTES = 1 << 18

Respond = Callable[[str], tuple[int, Iterable[bytes]]]


async def start_upstream(respond: Respond, port: int = 0) -> asyncio.Server:
    """Serve on loopback.  `respond` gets the request's head in lower case, and returns the length of a body and the body in chunks."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):  # the run has ended
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                declared = re.search(r"\r\ncontent-length: *(\d+)", head)
                left = int(declared[1]) if declared else 0
                while left:
                    left -= len(await reader.readexactly(min(left, CHUNK_BYTES)))
                length, chunks = respond(head)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
                for chunk in chunks:
                    writer.write(chunk)
                    await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", port)
