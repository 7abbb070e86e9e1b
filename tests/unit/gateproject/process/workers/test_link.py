"""Requests of the primary to a worker, and their responses."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateproject.process.workers.link import (
    PrimaryConnection,
    WorkerConnection,
    WorkerConnections,
    WorkerUnavailable,
    terminate_when_closed,
)
from tests.support.eventually import PATIENCE, eventually


class Gate:
    """Links, and the callbacks that they invoked."""

    def __init__(self, count: int, path: Path):
        self.ended: list[int] = []
        self.configuration: Any = SimpleNamespace(name="in force")
        self.path = path
        self.tasks: list[asyncio.Task[None]] = []
        self.links = WorkerConnections(count, self._configuration, self._end)

    async def _configuration(self) -> Any:
        return self.configuration

    def _end(self, link: WorkerConnection) -> None:
        self.ended.append(link.number)

    async def worker(self, number: int, **answers: Callable[[Any], Awaitable[Any]]) -> tuple[PrimaryConnection, asyncio.Task[None]]:
        link = await asyncio.to_thread(PrimaryConnection, self.path, number)
        task = asyncio.create_task(link.follow(answers))
        self.tasks.append(task)
        await eventually(lambda: number in self.links.serving)
        return link, task


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    made = Gate(3, tmp_path / "workers")
    await made.links.start(made.path)
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.wait(made.tasks)
    await made.links.stop(PATIENCE)


async def double(number: int) -> int:
    return 2 * number


async def never(_: Any) -> None:
    await asyncio.Event().wait()


async def test_each_worker_is_queried_and_answers(gate: Gate) -> None:
    link, _ = await gate.worker(2, double=double)
    assert link.configuration.name == "in force"
    assert not gate.links.all_ready.is_set()
    await gate.worker(3, double=double)
    assert gate.links.all_ready.is_set()
    answers = await gate.links.request_all("double", 21, PATIENCE)
    assert {link.number: answer for link, answer in answers.items()} == {2: 42, 3: 42}


async def test_unresponsive_worker_is_detected_and_blocks_no_other(gate: Gate) -> None:
    await gate.worker(2, ask=never)
    await gate.worker(3, ask=double)
    answers = {link.number: answer for link, answer in (await gate.links.request_all("ask", 1, 0.2)).items()}
    assert isinstance(answers[2], WorkerUnavailable)
    assert answers[3] == 2


async def test_ended_worker_is_detected_immediately(gate: Gate) -> None:
    _, task = await gate.worker(2, ask=never)
    pending = asyncio.create_task(gate.links.request_all("ask", 1, 60))
    await asyncio.sleep(0.05)
    task.cancel()
    async with asyncio.timeout(PATIENCE):
        ((_, answer),) = (await pending).items()
    assert isinstance(answer, WorkerUnavailable)
    assert (gate.ended, gate.links.serving) == ([2], {})


async def test_no_worker_starts_with_replaced_configuration(gate: Gate) -> None:
    async with gate.links.change():
        begins = asyncio.create_task(gate.worker(2))
        await asyncio.sleep(0.1)
        assert not begins.done()
        gate.configuration = SimpleNamespace(name="the next")
    async with asyncio.timeout(PATIENCE):
        link, _ = await begins
    assert link.configuration.name == "the next"


async def test_process_ends_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    life, held = os.pipe()
    ended = asyncio.Event()
    monkeypatch.setattr(os, "kill", lambda id, number: ended.set())
    terminate_when_closed(life, asyncio.get_running_loop())
    await asyncio.sleep(0)
    assert not ended.is_set()
    os.close(held)
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    os.close(life)
