"""A data broker behind real gRPC on loopback: its server, a client, and requests of a hostile caller."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from config.options import Options
from databroker.rpc import convert
from databroker.rpc.broker_server import DataBrokerRpc
from databroker.rpc.remote_broker import RemoteBroker
from databroker.store.base import RecordChange, StoreBackend
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.rpc_server import RpcServer
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import HostPort, Url
from tests.support.options import make_options

HEARTBEAT = 0.05
# Longer than usual, because a test machine may be busy for longer than a heartbeat.
SILENCE = 5.0


def loopback_url(port: int) -> Url:
    return Url("https", "127.0.0.1", port)


async def serve_broker(options: Options, store: StoreBackend, *, port: int = 0, host: str = "127.0.0.1") -> RpcServer:
    server = RpcServer(options, SharedSecret(options.shared_secret))
    server.add(convert.SERVICE, DataBrokerRpc(store, heartbeat=HEARTBEAT).methods())
    server.bind(HostPort(host, port))
    await server.start()
    return server


def client_of(port: int, options: Options, *, with_data: bool = True) -> RemoteBroker:
    channel = RpcChannel(loopback_url(port), options, SharedSecret(options.shared_secret))
    return RemoteBroker(channel, with_data=with_data, silence=SILENCE)


@asynccontextmanager
async def remote_broker(store: StoreBackend, options: Options) -> AsyncIterator[RemoteBroker]:
    server = await serve_broker(options, store)
    client = client_of(server.port, options)
    try:
        yield client
    finally:
        await client.close()
        await server.stop()


class OverGrpc:
    """A store as remote clients use it. Server and connection start with the first call and end with `close`."""

    def __init__(self, store: StoreBackend):
        self._store = store
        self._directory = TemporaryDirectory()
        self._options = make_options(Path(self._directory.name))
        self._server: RpcServer | None = None
        self._client: RemoteBroker | None = None

        self._connecting = asyncio.Lock()

    async def _connected(self) -> RemoteBroker:
        async with self._connecting:
            if self._client is None:
                self._server = await serve_broker(self._options, self._store)
                self._client = client_of(self._server.port, self._options)
        return self._client

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name in ("clean", "clock_skew"):  # not available to clients
            return getattr(self._store, name)

        async def call(*values: Any, **named: Any) -> Any:
            return await getattr(await self._connected(), name)(*values, **named)

        return call

    async def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        async for change in (await self._connected()).changes(since):
            yield change

    async def close(self) -> None:
        await self._store.close()
        if self._client is not None and self._server is not None:
            await self._client.close()
            await self._server.stop()
        self._directory.cleanup()
