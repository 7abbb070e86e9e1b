"""MCP server of the official SDK, as a child process: tools, resources and prompts."""

import asyncio
import sys
from typing import Any, Self

from tests.support.children import free_port, is_open
from tests.support.fork_server import python


class McpServer:
    """Running server.  Its answers are event streams, or JSON documents with `json_answers`."""

    def __init__(self, *, json_answers: bool = False):
        self.port = free_port()
        mode = "json" if json_answers else "events"
        self.child = python("-m", "tests.support.mcp_server", str(self.port), mode)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.child.wait_for(lambda: is_open(self.port), "the MCP server listens")
        return self

    def __exit__(self, *error: object) -> None:
        self.child.__exit__(*error)


def build(mode: str) -> Any:
    from mcp.server.mcpserver import Context, MCPServer

    released = asyncio.Event()
    server = MCPServer("Repositories", instructions="Repositories of the company")

    @server.tool()
    def search(text: str) -> str:
        return f"found {text}"

    @server.tool()
    def read_file(path: str) -> str:
        return f"content of {path}"

    @server.tool()
    def delete_repo(name: str) -> str:
        return f"deleted {name}"

    @server.tool()
    async def wait_for_release(context: Context) -> str:
        """Report progress, then wait until another call releases this one."""
        await context.report_progress(1, 2)
        await released.wait()
        released.clear()
        return "released"

    @server.tool()
    async def release() -> str:
        released.set()
        return "done"

    @server.resource("docs://public/readme")
    def readme() -> str:
        return "read me"

    @server.resource("docs://secret/keys")
    def keys() -> str:
        return "keys"

    @server.prompt()
    def review(code: str) -> str:
        return f"review {code}"

    @server.prompt()
    def destroy(what: str) -> str:
        return f"destroy {what}"

    return server.streamable_http_app(json_response=mode == "json", host="0.0.0.0")  # no check of the Host, which gate sets


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(build(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
