"""MCP server of the demo: shared notes, as tools of the Model Context Protocol over Streamable HTTP (2025-06-18), without a session.

It has no code for OAuth and no access rules: gate authenticates the agent and decides on each tool. The author of a note comes from gate's
assertion.
"""

import collections
import itertools
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from examples.demo.assertion import Verdict
from examples.demo.chat import parse_user

MAX_NOTES = 50
MAX_CHARACTERS = 500  # characters of one note
PROTOCOL_VERSION = "2025-06-18"
INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601  # JSON-RPC 2.0, section 5.1


def _tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = (
    _tool("list_notes", "List all notes with their numbers and authors"),
    _tool("add_note", "Add a note", text="string"),
    _tool("delete_note", "Delete the note of a number", number="integer"),
)


@dataclass(slots=True)
class Notes:
    """Notes by number; the oldest is dropped when there are MAX_NOTES."""

    by_number: collections.OrderedDict[int, dict[str, str]] = field(default_factory=collections.OrderedDict)
    numbers: itertools.count = field(default_factory=lambda: itertools.count(1))

    async def respond(self, request: web.Request, verdict: Verdict) -> web.Response:
        """Answer one JSON-RPC message. gate has validated it, so its members have the right types."""
        message = await request.json()
        if "id" not in message or "method" not in message:  # a notification or a response
            return web.Response(status=202)
        try:
            outcome = {"result": self._result(message["method"], message.get("params") or {}, parse_user(verdict)["email"])}
        except (KeyError, TypeError, ValueError) as error:
            outcome = {"error": {"code": INVALID_PARAMS, "message": f"invalid parameters: {error}"}}
        except NotImplementedError:
            outcome = {"error": {"code": METHOD_NOT_FOUND, "message": f"no method {message['method']!r}"}}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **outcome})

    def _result(self, method: str, params: dict[str, Any], author: str) -> dict[str, Any]:
        match method:
            case "initialize":
                capabilities, server = {"tools": {}}, {"name": "Notes of the gate demo", "version": "1"}
                return {"protocolVersion": PROTOCOL_VERSION, "capabilities": capabilities, "serverInfo": server}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": list(TOOLS)}
            case "tools/call":
                text = self._call(params["name"], params.get("arguments") or {}, author)
                return {"content": [{"type": "text", "text": text}]}
        raise NotImplementedError(method)

    def _call(self, tool: str, arguments: dict[str, Any], author: str) -> str:
        match tool:
            case "list_notes":
                return "\n".join(f"{number}. {note['text']} ({note['author']})" for number, note in self.by_number.items()) or "No notes."
            case "add_note":
                number = next(self.numbers)
                self.by_number[number] = {"text": str(arguments["text"])[:MAX_CHARACTERS], "author": author}
                if len(self.by_number) > MAX_NOTES:
                    self.by_number.popitem(last=False)
                return f"Added note {number}."
            case "delete_note":
                return "Deleted." if self.by_number.pop(int(arguments["number"]), None) else "No such note."
        raise ValueError(f"no tool {tool!r}")
