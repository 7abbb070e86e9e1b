"""Access of commands to the records of the running gate."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from config.options import Options
from databroker.broker_client import BrokerClient, iter_records
from databroker.claims import verified_email
from databroker.records import USER, Record
from databroker.rpc.remote_broker import RemoteBroker
from databroker.store.factory import open_store
from foundation.connection_errors import classify_failure
from foundation.email_address import canonical_email
from foundation.errors import BrokerError
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import HostPort, Url

CONNECT_TIMEOUT = 5.0  # seconds
EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - not listened on, but replaced by loopback


@asynccontextmanager
async def open_broker(options: Options) -> AsyncIterator[BrokerClient]:
    """Return a broker client: of the shared store, else of the process that has the store. Raise BrokerError if it is unavailable."""
    url = options.databroker_service_url
    if url is None and options.databroker_storage_type == "memory":
        url = _reachable_address(options.grpc_address)
        await _require_listener(url)
    if url is not None:
        remote = RemoteBroker(RpcChannel(url, options, SharedSecret(options.shared_secret)))
        try:
            yield remote
        finally:
            await remote.close()
    else:
        store = open_store(options)
        try:
            yield store
        finally:
            await store.close()


async def users_by_email(broker: BrokerClient, written: Collection[str], options: Options) -> dict[str, list[Record]]:
    """Return the user records that have one of these addresses verified; unverified addresses match no user."""
    canonical = {email: each for each in written if (email := canonical_email(each))}
    found = dict[str, list[Record]]()
    if canonical:
        async for record in iter_records(broker, USER):
            email = canonical_email(verified_email(record.id, record.data, options.providers))
            if email in canonical:
                found.setdefault(canonical[email], []).append(record)
    return found


async def _require_listener(url: Url) -> None:
    """Check that a process listens, because gRPC would wait for it with a less specific error."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, writer = await asyncio.open_connection(url.host.strip("[]"), url.port)
    except (OSError, TimeoutError) as error:
        raise BrokerError(
            f"the records are in the memory of the running gate, and {url.host}:{url.port} (grpc_address) "
            f"{classify_failure(error)}. Start gate first with the same configuration"
        ) from error
    writer.close()


def _reachable_address(address: HostPort | None) -> Url:
    if address is None:
        raise BrokerError("the records are in the memory of the running gate (databroker_storage_type). Set grpc_address to reach it")
    host = "127.0.0.1" if address.host in EVERY_ADDRESS else address.host
    return Url("http", f"[{host}]" if ":" in host else host, address.port)
