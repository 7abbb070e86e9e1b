"""Broker access of commands: the records that the running gate works with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from config.options import Options
from databroker.client import BrokerClient, LocalBroker
from databroker.rpc.client import RemoteBroker
from databroker.store.open import open_store
from foundation.errors import BrokerError
from foundation.rpc.channel import RpcChannel
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import HostPort, Url

EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - not listened on, but replaced by loopback


@asynccontextmanager
async def opened_broker(options: Options) -> AsyncIterator[BrokerClient]:
    """Broker client: the store itself where processes share it, else the process that has it; BrokerError where nobody can be asked."""
    url = options.databroker_service_url
    if url is None and options.databroker_storage_type == "memory":
        url = _own_address(options.grpc_address)
    if url is not None:
        remote = RemoteBroker(RpcChannel(url, options, SharedSecret(options.shared_secret)))
        try:
            yield remote
        finally:
            await remote.close()
    else:
        store = open_store(options)
        try:
            yield LocalBroker(store)
        finally:
            await store.close()


def _own_address(address: HostPort | None) -> Url:
    if address is None:
        raise BrokerError(
            "the records are in the memory of the running gate (databroker_storage_type), which can only be asked where grpc_address is set"
        )
    host = "127.0.0.1" if address.host in EVERY_ADDRESS else address.host
    return Url("http", f"[{host}]" if ":" in host else host, address.port)
