"""Closing of servers of asyncio, so that no connection stays open that was accepted in the same moment."""

import asyncio


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server whose handler has begun on each connection that was accepted.

    One that is closed before makes no connection of what it has just accepted (CPython 3.11, `Server._attach`), and leaves it open.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening.fileno())
    for _ in range(5):
        await asyncio.sleep(0)
    server.close()
