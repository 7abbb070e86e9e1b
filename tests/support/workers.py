"""A gate with several worker processes, and connections to a specific one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import httpx

from tests.support.gate import HTML, RunningGate

WORKERS = 2


_numbers = count()


def processes(gate: RunningGate) -> list[int]:
    """Return the workers, the first process first."""
    children = Path(f"/proc/{gate.child.process.pid}/task/{gate.child.process.pid}/children")
    return [int(id) for id in children.read_text().split()]


@asynccontextmanager
async def client_for(gate: RunningGate, worker: int, cookies: httpx.Cookies) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client whose only connection is to this worker."""
    for _ in range(300):
        async with gate.client(cookies=cookies) as client:
            path = f"/which/{next(_numbers)}"
            await client.get(gate.url("app.localhost", path))
            async with asyncio.timeout(10):
                while not (lines := [entry for entry in gate.log if entry["event"] == "request" and entry["path"] == path]):
                    await asyncio.sleep(0.01)
            if lines[0]["worker"] == worker:
                yield client
                return
    raise AssertionError(f"no connection came to worker {worker}")


async def on_each(gate: RunningGate, cookies: httpx.Cookies) -> list[int]:
    """Return the status of the application's page from each worker."""
    found = []
    for worker in range(1, WORKERS + 1):
        async with client_for(gate, worker, cookies) as client:
            found.append((await client.get(gate.url("app.localhost"), headers=HTML)).status_code)
    return found


def metric(page: str, name: str, **labels: str) -> float:
    """Return the sum of the samples with these labels."""
    lines = [line for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items()))


def metrics_for(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
