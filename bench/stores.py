"""How fast is the kvstore, from one process and sealed?

    python -m bench.stores

Goals: 2,000 sessions written a second, 100,000 changes read in 20 s.  The server is a real Redis with an append-only file.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from databroker.records import SESSION
from databroker.store.base import BackEnd
from databroker.store.kvclient import StorageTls, open_client
from databroker.store.kvstore import DEADLINE, KvStore
from databroker.store.sealed import SealedStore
from gateproject.config.storage_url import storage_url
from tests.support.redis_server import RedisServer

WRITERS = 32
CHANGES = 100_000
SESSION_DATA = {
    "user_id": "oidc/00000000-0000-0000-0000-000000000000",
    "claims": {"email": "somebody@example.com", "groups": [f"group-{number}" for number in range(10)]},
    "id_token": "i" * 900,
    "access_token": "a" * 600,
    "refresh_token": "r" * 200,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory), "--appendonly", "yes") as server:
        written, read = asyncio.run(measure(server.url))
    print(f"{written:,.0f} sessions written a second (goal 2,000); {CHANGES:,} changes read in {read:.1f} s (goal 20 s)")
    sys.exit(written < 2000 or read > 20)


async def measure(url: str) -> tuple[float, float]:
    store = SealedStore(KvStore(open_client(storage_url(url), StorageTls(), DEADLINE)), [os.urandom(32)])
    begin = (await store.put(SESSION, "first", SESSION_DATA)).version
    started = time.perf_counter()
    await asyncio.gather(*(write(store, number, CHANGES // WRITERS) for number in range(WRITERS)))
    written = time.perf_counter()
    seen = 0
    async for _ in store.changes(begin):
        seen += 1
        if seen == CHANGES:
            break
    done = time.perf_counter()
    await store.close()
    return CHANGES / (written - started), done - written


async def write(store: BackEnd, writer: int, number: int) -> None:
    for session in range(number):
        await store.put(SESSION, f"{writer}-{session}", SESSION_DATA, expires=time.time() + 3600)


if __name__ == "__main__":
    main()
