"""Do values survive being stored, and keep their secrets out of logs?"""

import pytest

from databroker.records import SESSION, DirectoryGroup, DirectoryUser, Session, User
from databroker.store.memory import MemoryStore


@pytest.mark.parametrize(
    "value",
    [
        Session("s", "oidc/1", "1", "oidc", 1.0, 2.0, {"a": ["b"]}, "id", "access", "refresh", 3.0, "192.0.2.1", "browser"),
        User("oidc/1", "a@a.org", True, "A", {"a": {"b": 1}}, 5.0),
        DirectoryUser("oidc/1", "a@a.org", "A", ("g1", "g2")),
        DirectoryGroup("g1", "engineering", "eng@a.org"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_value_comes_back_as_it_went(value):
    record = await MemoryStore().put("any", value.id, value.to_data())
    assert type(value).from_record(record) == value


def test_a_printed_session_shows_no_token():
    session = Session("s", "oidc/1", "1", "oidc", 1.0, 2.0, {}, "secret-1", "secret-2", "secret-3")
    assert "secret" not in repr(session)


async def test_a_printed_record_shows_no_token():
    session = Session("s", "oidc/1", "1", "oidc", 1.0, 2.0, {}, "secret-1", "secret-2", "secret-3")
    assert "secret" not in repr(await MemoryStore().put(SESSION, "s", session.to_data()))
