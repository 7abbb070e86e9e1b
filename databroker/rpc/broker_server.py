"""gRPC server of the data broker: serves this process's broker to other processes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from databroker.broker_client import BrokerClient
from databroker.records import Record
from databroker.rpc import convert
from databroker.rpc import databroker_pb2 as pb
from databroker.store.base import NO_POSITION, RecordChange, ResyncRequired
from foundation.errors import BadRequest, BrokerError
from foundation.tasks import spawn

# Seconds between messages of an idle stream.  A client that misses several treats the stream as dead (databroker/rpc/remote_broker.py).
HEARTBEAT = 1.0
BATCH = 100
PAGE = 500
# Maximum size of a page, below the message limit of clients (foundation/rpc/rpc_channel.py).
PAGE_BYTES = 8 * 1024 * 1024

Context: TypeAlias = grpc.aio.ServicerContext


class DataBrokerRpc:
    """Methods of databroker.proto.  The caller has been authenticated (foundation/rpc/rpc_server.py)."""

    def __init__(self, broker: BrokerClient, *, heartbeat: float = HEARTBEAT):
        self._broker = broker
        self._heartbeat = heartbeat

    def methods(self) -> dict[str, grpc.RpcMethodHandler]:
        descriptor = pb.DESCRIPTOR.services_by_name["DataBrokerService"]
        return {method.name: self._handler(method) for method in descriptor.methods}

    def _handler(self, method: Any) -> grpc.RpcMethodHandler:
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        request, response = (getattr(pb, described.name) for described in (method.input_type, method.output_type))
        return make(getattr(self, method.name), request.FromString, response.SerializeToString)

    async def Get(self, request: pb.GetRequest, context: Context) -> pb.GetResponse:
        record = await self._broker.get(request.type, request.id)
        if record is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "record not found")
            raise AssertionError("abort raises")
        return pb.GetResponse(record=convert.record_to_pb(record))

    async def Set(self, request: pb.SetRequest, context: Context) -> pb.SetResponse:
        try:
            data = convert.data_from_bytes(request.data)
        except ValueError as error:
            raise BadRequest("the record's data must be a JSON object") from error
        record = await self._broker.put(
            request.type,
            request.id,
            data,
            expires=request.expires if request.HasField("expires") else None,
            only_if_version=request.only_if_version if request.HasField("only_if_version") else None,
        )
        return pb.SetResponse(record=convert.record_to_pb(record, with_data=False))

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> pb.DeleteResponse:
        return pb.DeleteResponse(existed=await self._broker.delete(request.type, request.id))

    async def GetAll(self, request: pb.GetAllRequest, context: Context) -> pb.GetAllResponse:
        limit = min(request.limit, PAGE) if request.limit > 0 else PAGE
        records = await self._broker.page(request.type, request.page_token, limit)
        page = list(_fit_in_page(records))
        is_last = len(page) == len(records) < limit
        token = "" if is_last or not page else page[-1].id
        return pb.GetAllResponse(records=page, next_page_token=token)

    async def Sync(self, request: pb.SyncRequest, context: Context) -> AsyncIterator[pb.SyncResponse]:
        server_version = await self._broker.server_version()
        is_same = request.server_version in ("", server_version)
        since = request.record_version if is_same else NO_POSITION
        try:
            if since != NO_POSITION:
                yield pb.SyncResponse(server_version=server_version, record_version=since)
            async for position, changes in self._change_batches(since):
                messages = [convert.change_to_pb(change, with_data=not request.without_data) for change in changes]
                yield pb.SyncResponse(server_version=server_version, record_version=position, changes=messages)
        except ResyncRequired as resync:
            # Read again, because the store may have lost its data during this stream.
            server_version = await self._broker.server_version()
            yield pb.SyncResponse(server_version=server_version, start_over=True, record_version=resync.version)

    async def GetServerVersion(self, request: pb.GetServerVersionRequest, context: Context) -> pb.GetServerVersionResponse:
        return pb.GetServerVersionResponse(server_version=await self._broker.server_version())

    async def AcquireLease(self, request: pb.AcquireLeaseRequest, context: Context) -> pb.AcquireLeaseResponse:
        lease = await self._broker.acquire(request.name, request.ttl)
        return pb.AcquireLeaseResponse(lease=convert.lease_to_pb(lease) if lease is not None else None)

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> pb.RenewLeaseResponse:
        return pb.RenewLeaseResponse(is_held=await self._broker.renew(convert.lease_from_pb(request.lease), request.ttl))

    async def ReleaseLease(self, request: pb.ReleaseLeaseRequest, context: Context) -> pb.ReleaseLeaseResponse:
        await self._broker.release(convert.lease_from_pb(request.lease))
        return pb.ReleaseLeaseResponse()

    async def _change_batches(self, since: int) -> AsyncGenerator[tuple[int, list[RecordChange]]]:
        """Yield (position, changes): changes as they occur, or an empty list as a heartbeat.  Raises as `changes` does."""
        waiting: asyncio.Queue[RecordChange | BrokerError] = asyncio.Queue(BATCH)
        reader = spawn(self._pump(since, waiting), name="gRPC reader of the change stream")
        position = since
        try:
            while True:
                batch, error = await _next_batch(waiting, self._heartbeat)
                if not batch and reader.done():
                    raise error or BrokerError("the change stream ended")
                position = batch[-1].version if batch else position
                yield position, batch
                if error is not None:
                    raise error
        finally:
            reader.cancel()
            await asyncio.wait({reader})

    async def _pump(self, since: int, waiting: "asyncio.Queue[RecordChange | BrokerError]") -> None:
        try:
            async with aclosing(self._broker.changes(since)) as changes:
                async for change in changes:
                    await waiting.put(change)
        except BrokerError as error:
            await waiting.put(error)


async def _next_batch(
    waiting: "asyncio.Queue[RecordChange | BrokerError]", heartbeat: float
) -> tuple[list[RecordChange], BrokerError | None]:
    """Return the queued changes, or wait up to a heartbeat for one.  An error ends the batch."""
    batch: list[RecordChange] = []
    try:
        async with asyncio.timeout(heartbeat):
            following = await waiting.get()
    except TimeoutError:
        return batch, None
    while isinstance(following, RecordChange):
        batch.append(following)
        if waiting.empty():
            return batch, None
        following = waiting.get_nowait()
    return batch, following


def _fit_in_page(records: list[Record]) -> Iterator[pb.Record]:
    """Yield at least one record, and more while they fit into PAGE_BYTES."""
    size = 0
    for record in records:
        message = convert.record_to_pb(record)
        size += message.ByteSize()
        if size > PAGE_BYTES and message.id != records[0].id:
            return
        yield message
