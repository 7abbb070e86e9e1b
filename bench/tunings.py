"""What does each tuning of the process buy?  The same work with it and without, each in a process of its own.

    python -m bench.tunings

- packed records: MiB of 100,000 sessions in the replica (`databroker/record_cache.py`), without: the records as they were read.
- descriptors: ms that the longest of as many files as are allowed took, beside other threads (`foundation/machine/fd_limit.py`
  `raise_limit`).
- settled: ms of the longest collection while clients come and go, after a start (`gateproject/process/gc_tuning.py` `settle`).
- beside requests: ms for which the event loop could not go on while a thread loaded 5,000 routes (`gc_tuning.py` `made_beside_requests`).

The least of a few rounds counts, because what else the machine does only adds to it.  Goal: at most GOAL of what it is without the tuning,
else it is to be deleted.
"""

import asyncio
import gc
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

GOAL = 0.67
ROUNDS = 3
SESSIONS, CLIENTS, ROUTES = 100_000, 20_000, 5_000


def packed_records(is_tuned: bool) -> float:
    from databroker.record_cache import RecordCache
    from databroker.records import SESSION, Record
    from databroker.store.frozen import frozen_data

    held: RecordCache | dict[str, Record] = RecordCache(SESSION, SESSIONS) if is_tuned else {}
    keep = held.put if isinstance(held, RecordCache) else held.__setitem__
    before = _resident()
    for number in range(SESSIONS):
        claims = {"email": f"{number}@example.com", "groups": [f"group{each}" for each in range(10)], "auth_time": 1_700_000_000 + number}
        data = {
            "user_id": f"oidc/{number}",
            "subject": f"{number}",
            "issuer": "https://idp.example.com",
            "expires": 1.8e9,
            "claims": claims,
        }
        keep(f"{number:032x}", Record(SESSION, f"{number:032x}", frozen_data(data), number, 1.5e9 + number, 1.8e9))
    return (_resident() - before) / 1024


def descriptors(is_tuned: bool) -> float:
    import resource

    from foundation.machine.fd_limit import MOST_PREPARED, raise_limit

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    if is_tuned:
        raise_limit()
    longest = 0.0
    for _ in range(min(most, MOST_PREPARED) - 100):
        begun = time.perf_counter()
        os.dup(0)
        longest = max(longest, time.perf_counter() - begun)
    return longest * 1000


def settled(is_tuned: bool) -> float:
    import django.contrib.admin  # noqa: F401 - what a start has made

    from config.load import check_configuration  # noqa: F401
    from gateproject.process.gc_tuning import settle
    from proxy.envoy.resources import listener  # noqa: F401
    from proxy.upstreams import client  # noqa: F401

    if is_tuned:
        settle()
    pauses, begun = [0.0], [0.0]

    def watch(phase: str, _: object) -> None:
        if phase == "start":
            begun[0] = time.perf_counter()
        else:
            pauses.append(time.perf_counter() - begun[0])

    gc.callbacks.append(watch)
    here: list[object] = []
    for number in range(CLIENTS):
        here.append([{"client": number, "headers": [[b"host", b"app"] for _ in range(8)]}])
        if len(here) > CLIENTS // 10:
            here.pop(0)
    return max(pauses) * 1000


def beside_requests(is_tuned: bool) -> float:
    from contextlib import nullcontext

    from authorize.config_checks import CONFIG_CHECKS
    from authorize.state import route_table
    from bench.configuration import configuration
    from config.load import load_options
    from gateproject.process.gc_tuning import made_beside_requests

    async def longest(path: Path) -> float:
        def load() -> object:
            with made_beside_requests() if is_tuned else nullcontext():
                return route_table(load_options(path, {}, CONFIG_CHECKS))

        loading, wait = asyncio.create_task(asyncio.to_thread(load)), 0.0
        while not loading.done():
            begun = time.perf_counter()
            await asyncio.sleep(0)
            wait = max(wait, time.perf_counter() - begun)
        return wait * 1000

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "config.yaml"
        path.write_text("".join(configuration(ROUTES)))
        return asyncio.run(longest(path))


def _resident() -> int:
    """KiB."""
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


TUNINGS: dict[str, tuple[Callable[[bool], float], str]] = {
    "packed records": (packed_records, "MiB"),
    "descriptors": (descriptors, "ms"),
    "settled": (settled, "ms"),
    "beside requests": (beside_requests, "ms"),
}


def main() -> int:
    is_good = True
    print(f"{'':<18}{'with':>10}{'without':>10}{'ratio':>8}")
    for name, (_, unit) in TUNINGS.items():
        tuned, plain = (min(_of_its_own(name, is_tuned) for _ in range(ROUNDS)) for is_tuned in ("tuned", "plain"))
        is_good &= tuned <= GOAL * plain
        print(f"{name:<18}{tuned:>6.1f} {unit:<3}{plain:>6.1f} {unit:<3}{tuned / plain:>8.2f}")
    print(f"  goal: at most {GOAL}")
    return 0 if is_good else 1


def _of_its_own(name: str, tuned: str) -> float:
    command = [sys.executable, "-m", "bench.tunings", name, tuned]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(TUNINGS[sys.argv[1]][0](sys.argv[2] == "tuned"))
    else:
        sys.exit(main())
