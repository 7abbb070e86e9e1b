"""Many idle clients of one port, to measure the memory per connection of the process that they are connected to."""

import asyncio
import resource
import ssl
import sys
from collections.abc import Callable
from typing import TypeVar

from bench.support.harness import HOST
from bench.support.process_stats import resident


class IdleClient(asyncio.Protocol):
    """Idle client. `opened`: whether it received the expected response; `lost`: whether its connection has ended."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[bool] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_result(False)
        self.lost.set_result(None)


Client = TypeVar("Client", bound=IdleClient)


def allow_many_files() -> None:
    """Raise the descriptor limit, because each client uses two in the proxy, and the default limit is 1,024."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


async def connect(port: int, count: int, make: Callable[[], Client], tls: ssl.SSLContext | None = None) -> list[Client]:
    options = {"ssl": tls, "server_hostname": HOST} if tls else {}
    clients = []
    for _ in range(count):
        _, client = await asyncio.get_running_loop().create_connection(make, "127.0.0.1", port, **options)
        if not await client.opened:
            sys.exit(f"port {port} refused a client")
        clients.append(client)
    return clients


async def disconnect(clients: list[IdleClient]) -> None:
    for client in clients:
        client.transport.abort()
    await asyncio.gather(*(client.lost for client in clients))
    await asyncio.sleep(0.5)


async def idle_memory(pid: int, port: int, count: int, make: Callable[[], IdleClient], tls: ssl.SSLContext | None = None) -> float:
    """Return KiB of the process per idle client."""
    await disconnect(await connect(port, 20, make, tls))
    before = resident(pid)
    clients = await connect(port, count, make, tls)
    await asyncio.sleep(1)
    after = resident(pid)
    if any(client.lost.done() for client in clients):
        sys.exit("an idle client was disconnected")
    await disconnect(clients)
    return (after - before) / count / 1024
