"""Every kind of store on real servers, where each test finds it empty, and the providers; all started once, because they take seconds."""

from collections.abc import Callable, Iterator

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings

from config.settings.storage_url import parse_storage_url
from databroker.store.base import StoreBackend
from databroker.store.memory import MemoryStore
from databroker.store.redis_client import StorageTls, open_client
from databroker.store.redis_store import RedisStore
from tests.support.authenticate_site import ORIGIN
from tests.support.certified_provider import CertifiedProvider
from tests.support.certs import certificate_files
from tests.support.fake_idp import idp  # noqa: F401 - a fixture
from tests.support.redis_server import RedisServer
from tests.support.rpc import OverGrpc
from tests.support.stage import *  # noqa: F403 - fixtures
from tests.support.stores import database_on_postgresql, database_on_sqlite, postgresql, sealed  # noqa: F401 - fixtures
from tests.support.vendors import Emulators, emulators

Clock = Callable[[], float]
Opener = Callable[[Clock], StoreBackend]


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Speaks only to clients with the right certificate."""
    directory = tmp_path_factory.mktemp("redis-tls")
    with RedisServer(directory, tls=certificate_files(directory, "localhost")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """Two nodes that share the slots.  One that the machine leaves waiting for the node timeout makes the whole cluster refuse."""
    arguments = ("--cluster-enabled", "yes", "--cluster-node-timeout", "60000")
    with (
        RedisServer(tmp_path_factory.mktemp("redis-node"), *arguments) as one,
        RedisServer(tmp_path_factory.mktemp("redis-node"), *arguments) as two,
    ):
        one.command("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
        two.command("CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
        one.meet(two)
        for node in (one, two):
            node.child.wait_for(lambda node=node: "cluster_state:ok" in node.command("CLUSTER", "INFO"), "the cluster is whole")
        yield [one, two]


@pytest.fixture
def memory() -> Opener:
    return lambda clock: MemoryStore(clock)


@pytest.fixture
def kvstore(redis_server: RedisServer) -> Opener:
    redis_server.command("FLUSHALL")
    return lambda clock: RedisStore(open_client(parse_storage_url(redis_server.url), StorageTls(), 3), clock)


@pytest.fixture
def kvstore_with_tls(redis_with_tls: RedisServer) -> Opener:
    files = redis_with_tls.tls
    assert files is not None
    redis_with_tls.command("FLUSHALL")
    tls = StorageTls(files.authority, *redis_with_tls.client_pair)
    return lambda clock: RedisStore(open_client(parse_storage_url(redis_with_tls.url), tls, 3), clock)


@pytest.fixture
def kvstore_in_a_cluster(redis_cluster: list[RedisServer]) -> Opener:
    for node in redis_cluster:
        node.command("FLUSHALL")
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in redis_cluster)
    return lambda clock: RedisStore(open_client(parse_storage_url(f"kvstore+cluster://{hosts}"), StorageTls(), 3), clock)


@pytest.fixture
def over_grpc() -> Opener:
    return lambda clock: OverGrpc(MemoryStore(clock))


KINDS = [
    "memory",
    "over_grpc",
    "kvstore",
    "kvstore_with_tls",
    "kvstore_in_a_cluster",
    "database_on_sqlite",
    "database_on_postgresql",
    "sealed",
]


@pytest.fixture(params=KINDS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return request.getfixturevalue(request.param)


CALLBACK = f"{ORIGIN}/oauth2/callback"


@pytest.fixture(scope="session")
def certified() -> Iterator[CertifiedProvider]:
    with CertifiedProvider(CALLBACK) as running:
        yield running


@pytest.fixture(scope="session")
def emulated() -> Iterator[Emulators]:
    with emulators(CALLBACK) as running:
        yield running


@pytest.fixture
def django_pages() -> Iterator[ASGIHandler]:
    with override_settings(ROOT_URLCONF="authenticate.urls", MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
        yield ASGIHandler()
