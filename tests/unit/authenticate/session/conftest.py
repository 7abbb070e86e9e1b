"""Processes that renew sessions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from databroker.store.memory import MemoryStore
from tests.support.authenticate_site import Clock
from tests.support.fake_idp import FakeIdP
from tests.support.session_refresh import RefreshEnvironment


@pytest.fixture
async def processes(tmp_path: Path, idp: FakeIdP) -> AsyncIterator[list[RefreshEnvironment]]:
    """Two, with one store."""
    clock = Clock()
    store = MemoryStore(clock)
    processes = [RefreshEnvironment(tmp_path, idp, store, clock) for _ in range(2)]
    yield processes
    for process in processes:
        await process.close()


@pytest.fixture
def one(processes: list[RefreshEnvironment]) -> RefreshEnvironment:
    return processes[0]
