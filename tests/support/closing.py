"""Closing of asyncio servers without leaking a connection that is accepted concurrently."""

import asyncio


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server after its handler has started for each accepted connection.

    A server that is closed earlier leaks connections it has just accepted (CPython 3.11, `Server._attach`).
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening.fileno())
    for _ in range(5):
        await asyncio.sleep(0)
    server.close()
