"""Commands reach the records of the running gate in every store."""

from pathlib import Path

import pytest

from databroker.records import SERVICE_ACCOUNT
from databroker.rpc.broker_server import DataBrokerRpc
from databroker.rpc.convert import SERVICE
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from foundation.rpc.rpc_server import RpcServer
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import HostPort
from gateproject.management.broker_access import open_broker
from tests.support.children import free_port
from tests.support.options import make_options
from tests.support.rpc import loopback_url


async def test_in_memory_store_of_running_gate_is_queried_by_grpc(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    store = MemoryStore()
    server = RpcServer(options, SharedSecret(options.shared_secret))
    server.add(SERVICE, DataBrokerRpc(store).methods())
    server.bind(HostPort("127.0.0.1", 0))
    await server.start()
    try:
        there = options.model_copy(update={"grpc_address": HostPort("", loopback_url(server.port).port)})
        async with open_broker(there) as broker:
            await broker.put(SERVICE_ACCOUNT, "ci", {"name": "ci"})
    finally:
        await server.stop()
    assert await store.get(SERVICE_ACCOUNT, "ci") is not None


async def test_stopped_gate_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="Start gate first") as refused:
        async with open_broker(make_options(tmp_path, grpc_address=f"127.0.0.1:{free_port()}")):
            raise AssertionError("nothing was opened")
    assert "refused the connection" in str(refused.value)


async def test_unreachable_memory_store_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="grpc_address"):
        async with open_broker(make_options(tmp_path, grpc_address="")):
            raise AssertionError("nothing was opened")
