"""Remote data broker: a BrokerClient over gRPC with the guarantees of a store."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, NoReturn

import grpc

from databroker.records import Record
from databroker.rpc import convert
from databroker.rpc import databroker_pb2 as pb
from databroker.rpc.broker_server import HEARTBEAT
from databroker.store.base import Lease, RecordChange, ResyncRequired, VersionConflict
from foundation.errors import BrokerError
from foundation.rpc.rpc_channel import RpcChannel, RpcError

# Silence after which the stream is treated as dead.
STREAM_TIMEOUT = 3 * HEARTBEAT
PAUSE = 0.05  # seconds before a broken stream is resumed


class SyncPosition(int):
    """Version together with the server version that issued it, because another server numbers its changes differently."""

    server_version: str

    def __new__(cls, version: int, server_version: str) -> "SyncPosition":
        position = super().__new__(cls, version)
        position.server_version = server_version
        return position


class RemoteBroker:
    """Client whose calls wait for an unavailable broker, up to `grpc_client_timeout` in total, and then raise BrokerError.

    Only idempotent calls are retried.  A call whose retry could be mistaken for another client's write (`only_if_version`, `acquire`)
    fails if its outcome is unknown.
    """

    def __init__(self, channel: RpcChannel, *, with_data: bool = True, silence: float = STREAM_TIMEOUT):
        """Create a client.  Without `with_data` the records in the change stream have no data."""
        self._channel = channel
        self._with_data = with_data
        self._silence = silence

    async def get(self, type: str, id: str) -> Record | None:
        try:
            response = await self._call("Get", pb.GetRequest(type=type, id=id), pb.GetResponse, idempotent=True)
        except _NotFound:
            return None
        return convert.record_from_pb(response.record)

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        sent = convert.data_to_bytes(data)
        request = pb.SetRequest(type=type, id=id, data=sent, expires=expires, only_if_version=only_if_version)
        response = await self._call("Set", request, pb.SetResponse, idempotent=only_if_version is None)
        return convert.record_from_pb(response.record, convert.data_from_bytes(sent))

    async def delete(self, type: str, id: str) -> bool:
        """Delete the record.  Return whether it existed; False also if an earlier attempt of this call deleted it."""
        return bool((await self._call("Delete", pb.DeleteRequest(type=type, id=id), pb.DeleteResponse, idempotent=True)).existed)

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        records: list[Record] = []
        while len(records) < limit:
            request = pb.GetAllRequest(type=type, page_token=after, limit=limit - len(records))
            response = await self._call("GetAll", request, pb.GetAllResponse, idempotent=True)
            records += map(convert.record_from_pb, response.records)
            if not (after := response.next_page_token):
                break
        return records

    async def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        """Yield the changes.  Resumes after a lost or expired connection.  Raises ResyncRequired if the server has lost its data."""
        position = since
        while True:
            received = 0
            try:
                async with aclosing(self._sync(position)) as messages:
                    async for message in messages:
                        received += 1
                        if message.start_over:
                            raise ResyncRequired(SyncPosition(message.record_version, message.server_version))
                        for change in map(convert.change_from_pb, message.changes):
                            position = SyncPosition(change.version, message.server_version)
                            yield RecordChange(position, change.type, change.id, change.record)
                        position = SyncPosition(message.record_version, message.server_version)
            except RpcError as error:
                # The first message only confirms the position, so a stream without a second one is not resumed.
                if received < 2 or error.code is not grpc.StatusCode.UNAVAILABLE:
                    raise BrokerError(f"the data broker's change stream failed ({error})") from error
            if received < 2:
                raise BrokerError("the data broker's change stream ended without data")
            await asyncio.sleep(PAUSE)

    def _sync(self, position: int) -> AsyncGenerator[pb.SyncResponse]:
        request = pb.SyncRequest(
            server_version=position.server_version if isinstance(position, SyncPosition) else "",
            record_version=position,
            without_data=not self._with_data,
        )
        return self._channel.stream(f"/{convert.SERVICE}/Sync", request, pb.SyncResponse, self._silence)

    async def server_version(self) -> str:
        response = await self._call("GetServerVersion", pb.GetServerVersionRequest(), pb.GetServerVersionResponse, idempotent=True)
        return str(response.server_version)

    async def acquire(self, name: str, ttl: float) -> Lease | None:
        response = await self._call("AcquireLease", pb.AcquireLeaseRequest(name=name, ttl=ttl), pb.AcquireLeaseResponse)
        return convert.lease_from_pb(response.lease) if response.HasField("lease") else None

    async def renew(self, lease: Lease, ttl: float) -> bool:
        request = pb.RenewLeaseRequest(lease=convert.lease_to_pb(lease), ttl=ttl)
        return bool((await self._call("RenewLease", request, pb.RenewLeaseResponse, idempotent=True)).is_held)

    async def release(self, lease: Lease) -> None:
        request = pb.ReleaseLeaseRequest(lease=convert.lease_to_pb(lease))
        await self._call("ReleaseLease", request, pb.ReleaseLeaseResponse, idempotent=True)

    async def close(self) -> None:
        await self._channel.close()

    async def _call(self, method: str, request: Any, response: type[Any], *, idempotent: bool = False) -> Any:
        try:
            return await self._channel.call(f"/{convert.SERVICE}/{method}", request, response, idempotent=idempotent)
        except RpcError as error:
            _raise(error)


class _NotFound(BrokerError):
    """The record does not exist."""


_ERRORS: Final[Mapping[grpc.StatusCode, type[BrokerError]]] = {
    grpc.StatusCode.NOT_FOUND: _NotFound,
    grpc.StatusCode.ABORTED: VersionConflict,
}


def _raise(error: RpcError) -> NoReturn:
    raise _ERRORS.get(error.code, BrokerError)(f"the data broker: {error}") from error
