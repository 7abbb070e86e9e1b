"""Notes: the MCP server of the demo."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from examples.demo.assertion import Verdict
from examples.demo.notes import INVALID_PARAMS, MAX_NOTES, METHOD_NOT_FOUND, Notes


@contextlib.asynccontextmanager
async def notes_client() -> AsyncIterator[TestClient]:
    notes = Notes()

    async def respond(request: web.Request) -> web.Response:
        return await notes.respond(request, Verdict({"email": "alice@example.com"}))

    app = web.Application()
    app.router.add_post("/mcp", respond)
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        yield client


async def send(client: TestClient, method: str, params: object = None) -> dict[str, Any]:
    answer = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    message = await answer.json()
    assert (answer.status, message["jsonrpc"], message["id"]) == (200, "2.0", 7)
    return message


async def call(client: TestClient, tool: str, **arguments: object) -> str:
    return (await send(client, "tools/call", {"name": tool, "arguments": arguments}))["result"]["content"][0]["text"]


async def test_notes_are_added_listed_and_deleted() -> None:
    async with notes_client() as client:
        assert await call(client, "list_notes") == "No notes."
        assert await call(client, "add_note", text="buy tea") == "Added note 1."
        assert await call(client, "list_notes") == "1. buy tea (alice@example.com)"
        assert await call(client, "delete_note", number=2) == "No such note."
        assert await call(client, "delete_note", number=1) == "Deleted."
        assert await call(client, "list_notes") == "No notes."


async def test_oldest_note_is_dropped() -> None:
    async with notes_client() as client:
        for number in range(MAX_NOTES + 1):
            await call(client, "add_note", text=f"note {number}")
        listed = (await call(client, "list_notes")).splitlines()
    assert len(listed) == MAX_NOTES
    assert listed[0].startswith("2. note 1 ")


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "format_disk"}, INVALID_PARAMS),
        ("tools/call", {}, INVALID_PARAMS),
        ("tools/call", {"name": "add_note"}, INVALID_PARAMS),
        ("tools/call", {"name": "delete_note", "arguments": {"number": "x"}}, INVALID_PARAMS),
        ("server/discover", None, METHOD_NOT_FOUND),
    ],
)
async def test_errors_are_those_of_json_rpc(method: str, params: object, code: int) -> None:
    async with notes_client() as client:
        assert (await send(client, method, params))["error"]["code"] == code


async def test_notification_has_no_response() -> None:
    async with notes_client() as client:
        answer = await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (answer.status, await answer.read()) == (202, b"")
