"""gRPC services and clients by configuration."""

from typing import Any

import pytest

from authorize.ext_authz_types import ExtAuthzDependencies
from databroker.records import SESSION
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError, ConfigError
from gateproject.process.rpc_services import RpcServices
from tests.support.children import free_port
from tests.support.options import make_options
from tests.support.rpc import client_of, serve_broker

UNUSED: Any = None
DEPENDENCIES = ExtAuthzDependencies(UNUSED, UNUSED, UNUSED, UNUSED)


async def test_data_broker_is_served_at_its_configured_address(tmp_path):
    port = free_port()
    options = make_options(tmp_path, grpc_address=f"127.0.0.1:{port}")
    services, store = RpcServices(options), MemoryStore()
    assert services.broker is None
    services.open(store, DEPENDENCIES)
    await services.start()
    client = client_of(port, options)
    await client.put(SESSION, "a", {})
    assert await store.get(SESSION, "a") is not None
    await client.close()
    await services.stop_serving()
    await services.close()


async def test_without_an_address_nothing_is_served(tmp_path):
    services = RpcServices(make_options(tmp_path, grpc_address=""))
    services.open(MemoryStore(), DEPENDENCIES)
    await services.start()
    await services.stop_serving()


async def test_external_broker_is_used_if_named_and_not_served(tmp_path):
    external = MemoryStore()
    server = await serve_broker(make_options(tmp_path), external)
    port = free_port()
    options = make_options(
        tmp_path, databroker_service_url=f"http://127.0.0.1:{server.port}", grpc_address=f"127.0.0.1:{port}", grpc_client_timeout="1s"
    )
    services = RpcServices(options)
    assert services.broker is not None
    await services.broker.put(SESSION, "a", {})
    assert await external.get(SESSION, "a") is not None
    services.open(services.broker, DEPENDENCIES)
    await services.start()
    client = client_of(port, options)
    with pytest.raises(BrokerError, match="unimplemented"):
        await client.get(SESSION, "a")
    await client.close()
    await services.stop_serving()
    await services.close()
    await server.stop()


async def test_a_taken_port_names_its_setting(tmp_path):
    server = await serve_broker(make_options(tmp_path), MemoryStore())
    services = RpcServices(make_options(tmp_path, grpc_address=f"127.0.0.1:{server.port}"))
    with pytest.raises(ConfigError, match="grpc_address"):
        services.open(MemoryStore(), DEPENDENCIES)
    await server.stop()


async def test_a_new_secret_counts_without_a_restart(tmp_path):
    port = free_port()
    old = make_options(tmp_path, grpc_address=f"127.0.0.1:{port}", grpc_client_timeout="1s")
    new = make_options(tmp_path, shared_secret="A" * 43 + "=", grpc_client_timeout="1s")
    services = RpcServices(old)
    services.open(MemoryStore(), DEPENDENCIES)
    await services.start()
    services.reload(new)
    before, after = client_of(port, old), client_of(port, new)
    assert await after.get(SESSION, "a") is None
    with pytest.raises(BrokerError, match="unauthenticated"):
        await before.get(SESSION, "a")
    await before.close()
    await after.close()
    await services.stop_serving()
