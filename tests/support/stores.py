"""The stores in Django's database, and the sealed store, for the contract tests of all stores. PostgreSQL is started once."""

from collections.abc import Callable, Iterator

import pytest
from django.db import connections

from config.settings.storage_url import parse_database_url
from databroker.store.base import StoreBackend
from databroker.store.database import DatabaseStore
from databroker.store.memory import MemoryStore
from databroker.store.sealed import SealedStore
from gateproject.settings import _postgresql
from tests.support.fork_server import manage
from tests.support.options import make_options
from tests.support.postgresql import PostgresServer

Opener = Callable[[Callable[[], float]], StoreBackend]


@pytest.fixture
def database_on_sqlite(database: None) -> Opener:
    return DatabaseStore


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        directory = tmp_path_factory.mktemp("postgresql")
        make_options(directory, database_url=server.url)
        with manage("migrate", "-v", "0", "-config", directory / "config.yaml") as migration:
            assert migration.process.wait(60) == 0, migration.output
        yield server


@pytest.fixture
def database_on_postgresql(postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Opener:
    postgresql.query("TRUNCATE databroker_storedrecord, databroker_storestate, databroker_storedlease")
    use_postgresql(postgresql.url, monkeypatch)
    return DatabaseStore


def use_postgresql(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use PostgreSQL for the connections of new threads."""
    settings = connections.configure_settings({"default": _postgresql(parse_database_url(url))})
    monkeypatch.setitem(connections.settings, "default", settings["default"])


@pytest.fixture
def sealed() -> Opener:
    return lambda clock: SealedStore(MemoryStore(clock), [bytes(32)])
