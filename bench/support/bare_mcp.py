"""Upstream of the benchmark of MCP routes, in plain asyncio: `python -m bench.support.bare_mcp PORT`.

A GET is responded to with an event stream that does not end, a POST of `tools/list` with 500 tools, any other POST with a small result.
"""

import asyncio
import json
import re
import sys

TOOLS = 500
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata\n\n\r\n"


def _response(result: object) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}, separators=(",", ":")).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def tools() -> list[dict[str, object]]:
    schema = {"type": "object", "properties": {"text": {"type": "string", "description": "What to look for"}}, "required": ["text"]}
    return [{"name": f"tool_{number}", "description": "Does one of many things", "inputSchema": schema} for number in range(TOOLS)]


LIST, RESULT = _response({"tools": tools()}), _response({"content": [{"type": "text", "text": "done"}]})


class Server(asyncio.Protocol):
    received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        self.received = b""
        if head.startswith(b"GET /mcp"):
            self.transport.write(STREAM)
        else:
            self.transport.write(LIST if b"tools/list" in body else RESULT)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
