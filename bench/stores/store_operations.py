"""Throughput of the stores' most frequent operations, on a real Redis with an append-only file, sealed.

    python -m bench.stores.store_operations

The cost of a million sessions, and of gRPC: bench/stores/split_services.py. Each line ends with its goal, if any; the exit status is 1 if
one is missed.
"""

import asyncio
import os
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

from bench.support.harness import pin
from config.settings.storage_url import parse_storage_url
from databroker.records import SESSION
from databroker.replica import Replica
from databroker.store.base import StoreBackend
from databroker.store.redis_client import StorageTls, open_client
from databroker.store.redis_store import DEADLINE, RedisStore
from databroker.store.sealed import SealedStore
from foundation.tasks import spawn
from tests.support.redis_server import RedisServer

WRITERS = 64
CHANGES = 100_000
READS = 200_000
REVOCATIONS = 300
PROCESSES = 4
SESSION_DATA = {
    "user_id": "oidc/00000000-0000-0000-0000-000000000000",
    "claims": {"email": "somebody@example.com", "groups": [f"group-{number}" for number in range(10)]},
    "id_token": "i" * 900,
    "access_token": "a" * 600,
    "refresh_token": "r" * 200,
}


def main() -> None:
    pin(0)
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory), "--appendonly", "yes") as server:
        is_passed = asyncio.run(measure(server.url, os.urandom(32)))
    sys.exit(not is_passed)


async def measure(url: str, secret: bytes) -> bool:
    return all([*await write_and_read(url, secret), *await replica(url, secret), await revocation(url, secret)])


def report(what: str, value: float, goal: float, *, is_minimum: bool = False) -> bool:
    print(f"{what}: {value:,.3g} (goal: {'at least' if is_minimum else 'under'} {goal:,.3g})", flush=True)
    return value >= goal if is_minimum else value < goal


def opened(url: str, secret: bytes) -> SealedStore:
    return SealedStore(RedisStore(open_client(parse_storage_url(url), StorageTls(), DEADLINE)), [secret])


async def write_and_read(url: str, secret: bytes) -> list[bool]:
    store = opened(url, secret)
    begin = (await store.put(SESSION, "first", SESSION_DATA)).version
    started, used = time.perf_counter(), time.process_time()
    await fill(store, CHANGES)
    written, wrote = time.perf_counter() - started, time.process_time() - used
    print(f"processor time of one write: {wrote / CHANGES * 1e6:.0f} microseconds")
    started, seen = time.perf_counter(), 0
    async with aclosing(store.changes(begin)) as changes:
        async for _ in changes:
            seen += 1
            if seen == CHANGES // WRITERS * WRITERS:
                break
    read = time.perf_counter() - started
    await store.close()
    return [
        report("sessions written a second", CHANGES / written, 2000, is_minimum=True),
        report(f"seconds to read {CHANGES:,} changes", read, 20),
    ]


async def fill(store: StoreBackend, number: int) -> None:
    async def write(writer: int) -> None:
        for session in range(number // WRITERS):
            await store.put(SESSION, f"{writer}-{session}", SESSION_DATA, expires=time.time() + 3600)

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))


async def following(store: StoreBackend) -> tuple[Replica, asyncio.Task[None]]:
    replica = Replica(store)
    task = spawn(replica.run(), name="replica")
    while not replica.sync_token:
        await asyncio.sleep(0.005)
    return replica, task


async def replica(url: str, secret: bytes) -> list[bool]:
    store = opened(url, secret)
    copy, task = await following(store)
    started = time.perf_counter()
    await copy.get(SESSION, "0-0")
    print(f"a miss: {(time.perf_counter() - started) * 1000:.2f} ms, one round trip")
    took = []
    for read in (copy.peek, copy.version):
        started = time.perf_counter()
        for _ in range(READS):
            read(SESSION, "0-0")
        took.append((time.perf_counter() - started) / READS * 1e6)
    task.cancel()
    await asyncio.wait({task})
    await store.close()
    return [
        report("microseconds to read a session from the replica", took[0], 5),
        report("microseconds to learn there whether it is still the same", took[1], 5),
    ]


async def revocation(url: str, secret: bytes) -> bool:
    """Measure from the call of the deletion until the replicas of all processes have dropped the record."""
    writer, stores = opened(url, secret), [opened(url, secret) for _ in range(PROCESSES)]
    copies = [await following(store) for store in stores]
    took: list[float] = []
    for number in range(REVOCATIONS):
        id = f"revoked-{number}"
        await writer.put(SESSION, id, SESSION_DATA)
        received = [asyncio.Event() for _ in copies]
        for (copy, _), event in zip(copies, received, strict=True):
            await copy.get(SESSION, id)
            copy._callbacks[:] = [lambda change, event=event, id=id: event.set() if change.id == id and change.record is None else None]
        started = time.perf_counter()
        await writer.delete(SESSION, id)
        await asyncio.gather(*(event.wait() for event in received))
        took.append(time.perf_counter() - started)
    for _, task in copies:
        task.cancel()
    await asyncio.wait([task for _, task in copies])
    for store in (writer, *stores):
        await store.close()
    took.sort()
    print(f"revocation reaches {PROCESSES} replicas: median {took[len(took) // 2] * 1000:.1f} ms, worst {took[-1] * 1000:.1f} ms")
    return report("seconds at p99", took[int(len(took) * 0.99)], 1)


if __name__ == "__main__":
    main()
