"""Redis pipeline: calls of one loop iteration share a round trip, and the error of one call does not affect another."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis.exceptions import ConnectionError, ResponseError

from databroker.store.redis_pipeline import BATCH_SIZE, Command, CommandPipeline


class Server:
    def __init__(self) -> None:
        self.batches: list[int] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        self.batches.append(len(commands))
        await self.may_answer.wait()
        if any(word == "break" for (word,) in commands):
            raise ConnectionError("gone")
        return [ResponseError("no") if word == "wrong" else word for (word,) in commands]


async def test_calls_of_one_turn_are_one_round_trip_and_each_gets_its_own_answer() -> None:
    server = Server()
    batches = CommandPipeline(server.send, 1)
    values = [str(number) for number in range(BATCH_SIZE + 1)]
    assert await asyncio.gather(*(batches.execute((word,)) for word in values)) == values
    assert server.batches == [BATCH_SIZE, 1]


async def test_an_error_is_its_own_callers_only() -> None:
    batches = CommandPipeline(Server().send, 1)
    answer, error = await asyncio.gather(batches.execute(("good",)), batches.execute(("wrong",)), return_exceptions=True)
    assert answer == "good"
    assert isinstance(error, ResponseError)


async def test_broken_connection_is_reported_to_all_its_callers() -> None:
    batches = CommandPipeline(Server().send, 1)
    outcomes = await asyncio.gather(batches.execute(("break",)), batches.execute(("good",)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionError] * 2


async def test_cancelled_waiter_does_not_affect_others() -> None:
    server = Server()
    batches = CommandPipeline(server.send, 5)
    server.may_answer.clear()
    first, second = (asyncio.create_task(batches.execute((word,))) for word in ("first", "second"))
    while not server.batches:
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    server.may_answer.set()
    assert await second == "second"


async def test_a_server_that_hangs_ends_the_batch() -> None:
    server = Server()
    server.may_answer.clear()
    with pytest.raises(TimeoutError):
        await CommandPipeline(server.send, 0.01).execute(("word",))
