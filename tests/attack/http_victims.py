"""Gates that an attack may end or starve, one for each place where records are kept; each starts when it is first asked for."""

import asyncio
import atexit
import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.attack.target import Target
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer

STORES = ("memory", "SQLite", "PostgreSQL", "kvstore")
KEEPING = STORES[1:]  # their sessions outlive gate's process

_to_the_end = ExitStack()
atexit.register(_to_the_end.close)


async def victim(store: str) -> Target:
    """It runs an event loop while it starts, so it starts in another thread."""
    return await asyncio.to_thread(_victim, store)


@cache
def redis() -> RedisServer:
    """Every write is in its file before it answers."""
    directory = Path(_to_the_end.enter_context(tempfile.TemporaryDirectory(prefix="gate-attack-")))
    return _to_the_end.enter_context(RedisServer(directory / "redis", "--appendonly", "yes", "--appendfsync", "always"))


@cache
def postgresql() -> PostgresServer:
    return _to_the_end.enter_context(PostgresServer())


def restart_store(store: str) -> Callable[[], None] | None:
    """Function that kills the store's server and starts it again; None without a server."""
    if store == "kvstore":
        return _restart_redis
    return postgresql().restart if store == "PostgreSQL" else None


def restart_gate(target: Target, way: signal.Signals) -> None:
    gate = target.gate
    gate.stop(way)
    target.gate = type(gate)(gate.builder, gate.config_file, gate.certificates)
    target.pid = target.gate.child.process.pid


@cache
def _victim(store: str) -> Target:
    settings = {}
    if store == "kvstore":
        settings = {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": redis().url}
    elif store != "memory":
        settings = {"databroker_storage_type": "database"}
        settings |= {"database_url": postgresql().url} if store == "PostgreSQL" else {}
    target = _to_the_end.enter_context(Target.start(**settings))
    _to_the_end.callback(lambda: target.gate.stop(signal.SIGKILL))  # it may be another than was started first
    return target


def _restart_redis() -> None:
    redis().kill()
    redis().restart()
