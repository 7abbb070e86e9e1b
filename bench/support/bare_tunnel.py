"""Peers of the websocket benchmark, in plain asyncio: an echo server, and the baseline, a tunnel that only relays.

`python -m bench.support.bare_tunnel echo PORT` · `python -m bench.support.bare_tunnel tunnel PORT TO_PORT`
"""

import asyncio
import base64
import hashlib
import re
import sys

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Echo(asyncio.Protocol):
    """Echo server for frames that arrive in one read, masked with zeroes. Ping-pong never sends several at once."""

    def connection_made(self, transport):
        self.transport = transport
        self.is_open = False

    def data_received(self, data):
        if self.is_open:
            self.transport.write(bytes((data[0], data[1] & 0x7F)) + data[6:])
            return
        key = re.search(rb"(?i)\r\nsec-websocket-key: *([^\r]+)", data)
        if key is None:  # the page after a sign-in
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        self.is_open = True
        accept = base64.b64encode(hashlib.sha1(key[1] + _GUID).digest())
        upgrade = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.transport.write(upgrade + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")


class End(asyncio.Protocol):
    """One end of the tunnel; `other` is the peer."""

    def __init__(self, other=None, port=None):
        self.other, self.port, self.transport, self.waiting = other, port, None, b""

    def connection_made(self, transport):
        self.transport = transport
        if self.waiting:
            transport.write(self.waiting)
        if self.port is not None:
            self.other = End(self)
            loop = asyncio.get_running_loop()
            self.task = loop.create_task(loop.create_connection(lambda: self.other, "127.0.0.1", self.port))

    def data_received(self, data):
        if self.other.transport is None:
            self.other.waiting += data
        else:
            self.other.transport.write(data)

    def pause_writing(self):
        self.other.transport.pause_reading()

    def resume_writing(self):
        self.other.transport.resume_reading()

    def connection_lost(self, error):
        if self.other.transport is not None:
            self.other.transport.close()


async def main(role, port, to=None):
    loop = asyncio.get_running_loop()
    factory = Echo if role == "echo" else lambda: End(port=int(to))
    server = await loop.create_server(factory, "127.0.0.1", int(port), backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
