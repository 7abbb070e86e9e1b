"""Programs: known by the session that they act by, and forgotten with it."""

from authenticate.portal import programmatic_clients
from databroker.records import PROGRAMMATIC_CLIENT, ProgrammaticClient, SessionRecord
from databroker.store.memory import MemoryStore


def session(id: str) -> SessionRecord:
    return SessionRecord(id, "oidc/1", "1", "oidc", 0.0, 900.0)


async def test_clients_are_listed_per_session() -> None:
    broker = MemoryStore(lambda: 0.0)
    first, second = ProgrammaticClient("app.example.com", "localhost:1234", 10.0), ProgrammaticClient("db.example.com", "localhost:9", 20.0)
    await programmatic_clients.record_client(broker, session("s1"), first)
    await programmatic_clients.record_client(broker, session("s1"), ProgrammaticClient("app.example.com", "localhost:1234", 30.0))
    await programmatic_clients.record_client(broker, session("s2"), second)
    assert await programmatic_clients.list_clients(broker, "s1") == [ProgrammaticClient("app.example.com", "localhost:1234", 30.0)]
    assert await programmatic_clients.list_clients(broker, "s2") == [second]
    assert await programmatic_clients.list_clients(broker, "s") == []
    assert [record.expires for record in await broker.page(PROGRAMMATIC_CLIENT, "", 10)] == [900.0, 900.0]
