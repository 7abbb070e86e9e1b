"""Chat room: every user receives every message, under the name from the verified assertion."""

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from examples.demo.assertion import Verdict
from examples.demo.chat import MAX_CHARACTERS, Room, parse_user


@contextlib.asynccontextmanager
async def room_client() -> AsyncIterator[TestClient]:
    """`/NAME` enters as that person."""
    room = Room()

    async def enter(request: web.Request) -> web.WebSocketResponse:
        name = request.match_info["name"]
        return await room.visit(request, Verdict({"email": f"{name}@example.com", "name": name.capitalize()}))

    app = web.Application()
    app.router.add_get("/{name}", enter)
    app.on_shutdown.append(lambda _: room.close())
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        yield client


async def next_of(socket, kind: str) -> dict:
    while (message := await socket.receive_json(timeout=5))["type"] != kind:
        pass
    return message


async def test_message_reaches_all_under_the_sender_s_name() -> None:
    async with room_client() as client, client.ws_connect("/alice") as alice, client.ws_connect("/bob") as bob:
        await alice.send_str("  hello <b>  ")
        for each in (alice, bob):
            message = await next_of(each, "message")
            assert (message["person"]["name"], message["text"]) == ("Alice", "hello <b>")


async def test_newcomer_receives_history_and_members() -> None:
    async with room_client() as client, client.ws_connect("/alice") as alice:
        await alice.send_str("first")
        await next_of(alice, "message")
        async with client.ws_connect("/bob") as bob:
            assert [entry["text"] for entry in (await next_of(bob, "welcome"))["said"]] == ["first"]
            assert [member["name"] for member in (await next_of(bob, "here"))["people"]] == ["Alice", "Bob"]


async def test_former_member_is_not_listed() -> None:
    async with room_client() as client, client.ws_connect("/alice") as alice:
        async with client.ws_connect("/bob"):
            while len((await next_of(alice, "here"))["people"]) < 2:
                pass
        assert [member["name"] for member in (await next_of(alice, "here"))["people"]] == ["Alice"]


async def test_a_message_is_cut_and_an_empty_one_is_none() -> None:
    async with room_client() as client, client.ws_connect("/alice") as alice:
        await alice.send_str("   ")
        await alice.send_str("x" * 1000)
        assert (await next_of(alice, "message"))["text"] == "x" * MAX_CHARACTERS


def test_without_a_name_the_address_serves() -> None:
    assert parse_user(Verdict({"email": "dora@example.com", "sub": "1"})) == {"name": "Dora", "email": "dora@example.com"}
