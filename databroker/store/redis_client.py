"""Key-value store client: one server, the primary named by sentinels, or a cluster; with TLS as configured."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from redis.asyncio import BlockingConnectionPool, ConnectionPool
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import NoBackoff
from redis.exceptions import ClusterError, ConnectionError, RedisClusterException, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from config.settings.storage_url import StorageUrl
from databroker.store.redis_pipeline import Command
from foundation.client_tls import verifying_context
from foundation.telemetry.metrics import kvstore_wait_count, kvstore_wait_duration

MAX_CONNECTIONS = 64


class RedisClient(Protocol):
    """Interface of redis-py's clients that RedisStore uses."""

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Return the responses to commands; errors from the server are returned as values.  Raises if the connection fails."""
        ...

    async def drop_idle(self) -> None:
        """Close idle connections, because after a timeout any of them may be dead."""
        ...

    def connections(self) -> tuple[int, int]:
        """Return the numbers of all and of idle connections."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StorageTls:
    """TLS settings.  The authorities in `ca_file` are trusted in addition to those of the system."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    skip_verify: bool = False


def open_client(url: StorageUrl, tls: StorageTls, timeout: float) -> RedisClient:
    """Return a client that connects on the first command.  It never retries, because the first attempt may have succeeded."""
    login = {"username": url.username, "password": url.password.reveal() if url.password else None}
    shared: dict[str, Any] = {**login, "socket_connect_timeout": timeout, "retry": Retry(NoBackoff(), 0)}
    # Servers are tried one after the other, so one that does not respond must leave time for the rest.
    server_timeout = timeout / (len(url.hosts) + 1)
    if url.kind == "cluster":
        timeouts = {"socket_connect_timeout": server_timeout}
        return _RestartingCluster({"ssl": url.tls, **shared, **timeouts, **(_tls_arguments(tls) if url.tls else {})}, _addresses(url))
    secured: dict[str, Any] = {"context": _context(tls)} if url.tls else {}
    if url.kind == "sentinel":
        timeouts = {"socket_connect_timeout": server_timeout, "socket_timeout": server_timeout}
        sentinel_options = {**timeouts, "retry": shared["retry"], **({"ssl": True, **_tls_arguments(tls)} if url.tls else {})}
        sentinel = Sentinel(_addresses(url), sentinel_kwargs=sentinel_options)  # type: ignore[no-untyped-call]
        kind = _SentinelTlsConnection if url.tls else SentinelManagedConnection
        arguments = {**shared, **secured, "db": url.database, "connection_class": kind}
        pool = SentinelConnectionPool(url.service, sentinel, **arguments)  # type: ignore[no-untyped-call]
        return _SingleServer(pool, sentinel)
    ((host, port),) = _addresses(url)
    connections = _CountedPool(
        max_connections=MAX_CONNECTIONS,
        timeout=None,  # RedisStore limits the complete call
        connection_class=_SharedContextConnection if url.tls else Connection,
        host=host,
        port=port,
        db=url.database,
        **shared,
        **secured,
    )
    return _SingleServer(connections)


def _addresses(url: StorageUrl) -> list[tuple[str, int]]:
    return [(host.host, host.port) for host in url.hosts]


class _SharedContextConnection(SSLConnection):
    """Connection with a shared TLS context, because creating one blocks the event loop for 30 ms."""

    def __init__(self, *, context: ssl.SSLContext, **arguments: Any):
        super().__init__(**arguments)
        self.ssl_context.context = context


class _SentinelTlsConnection(SentinelManagedConnection, _SharedContextConnection):
    pass


def _context(tls: StorageTls) -> ssl.SSLContext:
    context = verifying_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.ca_file is not None:
        context.load_verify_locations(cafile=tls.ca_file)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    if tls.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class _CountedPool(BlockingConnectionPool):
    """Connection pool that measures the waits for a connection: number and duration."""

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        if self.can_get_connection():
            return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]
        started = time.monotonic()
        try:
            return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]
        finally:
            kvstore_wait_count.inc()
            kvstore_wait_duration.inc((time.monotonic() - started) * 1000)


class _SingleServer:
    """Client of one server, configured or found by `sentinel`."""

    def __init__(self, pool: ConnectionPool, sentinel: Sentinel | None = None):
        self._pool = pool
        self._sentinels = sentinel.sentinels if sentinel is not None else []

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.send_packed_command(connection.pack_commands(commands))
            return [await _read_response(connection) for _ in commands]
        finally:
            await self._pool.release(connection)

    async def drop_idle(self) -> None:
        await self._pool.disconnect(inuse_connections=False)

    def connections(self) -> tuple[int, int]:
        idle = len(self._pool._available_connections)
        return idle + len(self._pool._in_use_connections), idle

    async def aclose(self) -> None:
        await self._pool.aclose()
        for watcher in self._sentinels:
            await watcher.aclose()


async def _read_response(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


class _RestartingCluster:
    """Cluster client that is recreated after an error, because redis-py 6.4 removes a failed node from its list, eventually all of them.

    Each new client starts discovery at another node, so that one that hangs does not hide the rest.
    """

    def __init__(self, arguments: dict[str, Any], nodes: list[tuple[str, int]]):
        self._arguments = arguments
        self._nodes = nodes
        self._client: RedisCluster | None = None

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Return the responses to commands, sent separately because redis-py's cluster pipelines retry some commands."""
        return list(await asyncio.gather(*(self._execute(command) for command in commands)))

    async def _execute(self, command: Command) -> Any:
        if (client := self._client) is None:
            nodes = [ClusterNode(host, port) for host, port in self._nodes]
            client = self._client = RedisCluster(startup_nodes=nodes, **self._arguments)
        try:
            return await client.execute_command(*command)
        except (ConnectionError, RedisTimeoutError, ClusterError, RedisClusterException) as error:
            if self._client is client:
                await self.drop_idle()
            if isinstance(error, RedisClusterException):  # not a RedisError
                raise ConnectionError(str(error)) from error
            raise
        except ResponseError as error:
            return error

    async def drop_idle(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._nodes = [*self._nodes[1:], *self._nodes[:1]]
            await client.aclose()

    def connections(self) -> tuple[int, int]:
        nodes = self._client.get_nodes() if self._client is not None else []
        return sum(len(node._connections) for node in nodes), sum(len(node._free) for node in nodes)

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def _tls_arguments(tls: StorageTls) -> dict[str, Any]:
    return {
        "ssl_ca_certs": str(tls.ca_file) if tls.ca_file else None,
        "ssl_certfile": str(tls.cert_file) if tls.cert_file else None,
        "ssl_keyfile": str(tls.key_file) if tls.key_file else None,
        "ssl_cert_reqs": "none" if tls.skip_verify else "required",
        "ssl_check_hostname": not tls.skip_verify,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
    }
