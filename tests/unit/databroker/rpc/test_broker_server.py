"""Broker methods beyond the store's contract: pages, and the stream as clients other than gate's read it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
import pytest

from databroker.records import SESSION, USER
from databroker.rpc import broker_server as rpc_server
from databroker.rpc import databroker_pb2 as pb
from databroker.rpc.broker_server import DataBrokerRpc
from databroker.store.memory import MemoryStore
from foundation.errors import BadRequest, BrokerError
from tests.support.eventually import PATIENCE


class Context:
    """Of gRPC's, only what the methods use."""

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise grpc.aio.AbortError(code, details)


CONTEXT: Any = Context()


@pytest.fixture
def rpc(store: MemoryStore) -> DataBrokerRpc:
    return DataBrokerRpc(store, heartbeat=0.02)


async def messages(stream: AsyncIterator[Any], count: int) -> list[Any]:
    async with asyncio.timeout(5), aclosing(stream) as opened:
        return [await anext(opened) for _ in range(count)]


def changes_in(answers: list[pb.SyncResponse]) -> list[tuple[str, str, bool]]:
    return [(change.type, change.id, change.HasField("record")) for answer in answers for change in answer.changes]


def test_every_method_of_the_proto_is_there(rpc):
    names = [method.name for method in pb.DESCRIPTOR.services_by_name["DataBrokerService"].methods]
    assert sorted(rpc.methods()) == sorted(names)


async def test_a_missing_record_is_not_found(rpc):
    with pytest.raises(grpc.aio.AbortError) as error:
        await rpc.Get(pb.GetRequest(type=SESSION, id="a"), CONTEXT)
    assert error.value.args[0] is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("data", [b"[]", b"{", b'"a"'])
async def test_data_that_are_no_object_are_the_callers_fault(rpc, store, data):
    with pytest.raises(BadRequest):
        await rpc.Set(pb.SetRequest(type=SESSION, id="a", data=data), CONTEXT)
    assert await store.get(SESSION, "a") is None


async def test_page_stays_below_client_limit(rpc, store, monkeypatch):
    monkeypatch.setattr(rpc_server, "PAGE_BYTES", 1000)
    for n in range(3):
        await store.put(SESSION, f"s{n}", {"a": "x" * 600})
    first = await rpc.GetAll(pb.GetAllRequest(type=SESSION), CONTEXT)
    assert [record.id for record in first.records] == ["s0"]
    assert first.next_page_token == "s0"


async def test_stream_starts_with_server_identity(rpc, store):
    version = (await store.put(USER, "a", {})).version
    (greeting,) = await messages(rpc.Sync(pb.SyncRequest(record_version=version), CONTEXT), 1)
    assert greeting.server_version == await store.server_version()
    assert (greeting.start_over, greeting.record_version, list(greeting.changes)) == (False, version, [])


async def test_available_changes_are_batched_and_idle_stream_has_heartbeats(rpc, store):
    for n in range(250):
        await store.put(USER, f"u{n:03}", {})
    answers = await messages(rpc.Sync(pb.SyncRequest(record_version=0), CONTEXT), 6)
    assert [id for _, id, _ in changes_in(answers)] == [f"u{n:03}" for n in range(250)]
    assert max(len(answer.changes) for answer in answers) > 1
    assert answers[-1].record_version == 250


async def test_a_place_of_another_life_is_lost(rpc, store):
    await store.put(USER, "a", {})
    (answer,) = await messages(rpc.Sync(pb.SyncRequest(server_version="another", record_version=0), CONTEXT), 1)
    assert (answer.start_over, answer.record_version) == (True, 1)
    assert answer.server_version == await store.server_version()


async def test_stream_without_data_names_changed_records(rpc, store):
    await store.put(SESSION, "s", {"access_token": "secret"})
    await store.put(SESSION, "t", {})
    await store.delete(SESSION, "t")
    answers = await messages(rpc.Sync(pb.SyncRequest(record_version=0, without_data=True), CONTEXT), 3)
    assert changes_in(answers) == [(SESSION, "s", True), (SESSION, "t", False)]
    assert not any(b"secret" in answer.SerializeToString() for answer in answers)


async def test_store_failure_ends_stream_after_its_last_record(rpc, store):
    await store.put(USER, "a", {})
    stream = rpc.Sync(pb.SyncRequest(record_version=0), CONTEXT)
    answers = await messages_until_change(stream)
    assert changes_in(answers) == [(USER, "a", True)]
    await store.close()
    with pytest.raises(BrokerError):
        await asyncio.wait_for(to_the_end(stream), PATIENCE)


async def to_the_end(stream: AsyncIterator[pb.SyncResponse]) -> None:
    async for _ in stream:
        pass


async def messages_until_change(stream: AsyncIterator[pb.SyncResponse]) -> list[pb.SyncResponse]:
    answers = []
    async with asyncio.timeout(5):
        async for answer in stream:
            answers.append(answer)
            if answer.changes:
                break
    return answers
