"""Is the kvstore reached by TLS as configured, through sentinels, and in a cluster that comes back?"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.settings.storage_url import parse_storage_url
from databroker.store.redis_client import StorageTls, open_client
from databroker.store.redis_store import RedisStore
from foundation.errors import BrokerError
from tests.support.certs import certificate_files
from tests.support.children import Child, free_port
from tests.support.redis_server import PROGRAM, RedisServer


def kvstore(url: str, tls: StorageTls | None = None) -> RedisStore:
    return RedisStore(open_client(parse_storage_url(url), tls or StorageTls(), 3))


async def works(url: str, tls: StorageTls | None = None) -> bool:
    store = kvstore(url, tls)
    try:
        written = await store.put("session", "a", {"n": 1})
        return await store.get("session", "a") == written
    except BrokerError:
        return False
    finally:
        await store.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    directory = tmp_path_factory.mktemp("redis-tls")
    with RedisServer(directory, tls=certificate_files(directory, "localhost")) as server:
        yield server


async def test_tls_wants_the_right_authority_the_right_name_and_shows_the_client_pair(secured: RedisServer) -> None:
    assert secured.tls is not None
    authority, pair = secured.tls.authority, secured.client_pair
    assert await works(secured.url, StorageTls(authority, *pair))
    assert not await works(secured.url, StorageTls(None, *pair))
    assert not await works(secured.url.replace("localhost", "127.0.0.1"), StorageTls(authority, *pair))
    assert not await works(secured.url, StorageTls(authority))
    assert not await works(secured.url.replace("kvstores", "kvstore"), StorageTls(authority, *pair))
    assert await works(secured.url, StorageTls(None, *pair, skip_verify=True))


async def test_sentinels_locate_the_server(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "server") as server, sentinel_of(server, tmp_path) as (port, _):
        anonymous = free_port()
        assert await works(f"kvstore+sentinel://127.0.0.1:{anonymous},127.0.0.1:{port}/gate")
        assert not await works(f"kvstore+sentinel://127.0.0.1:{port}/another")


async def test_hanging_sentinel_does_not_block_others(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "server") as server,
        sentinel_of(server, tmp_path) as (hangs, child),
        sentinel_of(server, tmp_path) as (answers, _),
    ):
        child.process.send_signal(signal.SIGSTOP)
        try:
            assert await works(f"kvstore+sentinel://127.0.0.1:{hangs},127.0.0.1:{answers}/gate")
        finally:
            child.process.send_signal(signal.SIGCONT)


@contextmanager
def sentinel_of(server: RedisServer, directory: Path) -> Iterator[tuple[int, Child]]:
    port = free_port()
    config = directory / f"sentinel-{port}.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor gate 127.0.0.1 {server.port} 1\n")
    with Child(PROGRAM, config, "--sentinel") as sentinel:
        sentinel.wait_for_line("+monitor master gate")
        yield port, sentinel


async def test_a_cluster_that_was_away_is_found_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--cluster-enabled", "yes", "--appendonly", "yes", "--appendfsync", "always") as node:
        node.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        node.child.wait_for(lambda: "cluster_state:ok" in node.command("CLUSTER", "INFO"), "the cluster is whole")
        store = kvstore(f"redis+cluster://127.0.0.1:{node.port}")
        written = await store.put("session", "a", {})
        connections, idle = store._client.connections()
        assert 0 < idle <= connections
        node.kill()
        for _ in range(5):
            with pytest.raises(BrokerError):
                await store.get("session", "a")
        node.restart()
        node.child.wait_for(lambda: "cluster_state:ok" in node.command("CLUSTER", "INFO"), "the cluster is back")
        async with asyncio.timeout(5):
            assert await store.get("session", "a") == written
        await store.close()


async def test_hanging_node_does_not_block_the_cluster(tmp_path: Path) -> None:
    arguments = ("--cluster-enabled", "yes", "--cluster-node-timeout", "60000")
    with RedisServer(tmp_path / "one", *arguments) as gate_value, RedisServer(tmp_path / "two", *arguments) as other:
        gate_value.command("CLUSTER", "ADDSLOTSRANGE", "0", "16382")
        other.command("CLUSTER", "ADDSLOTS", "16383")
        gate_value.meet(other)
        for node in (gate_value, other):
            node.child.wait_for(lambda node=node: "cluster_state:ok" in node.command("CLUSTER", "INFO"), "the cluster is whole")
        url = parse_storage_url(f"kvstore+cluster://127.0.0.1:{other.port},127.0.0.1:{gate_value.port}")
        store = RedisStore(open_client(url, StorageTls(), 4), deadline=4)
        other.hang()
        try:
            with pytest.raises(BrokerError):
                await store.get("session", "a")
            assert (await store.put("session", "a", {})).id == "a"
        finally:
            other.go_on()
            await store.close()
