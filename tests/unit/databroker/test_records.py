"""Do values survive being stored, and keep their secrets out of logs?"""

from typing import Any

import pytest

from databroker.records import SESSION, DirectoryGroup, DirectoryUser, Record, ServiceAccountRecord, SessionRecord, UserRecord
from databroker.store.memory import MemoryStore


@pytest.mark.parametrize(
    "value",
    [
        SessionRecord("s", "oidc/1", "1", "oidc", 1.0, 2.0, {"a": ["b"]}, "id", "access", "refresh", 3.0, "192.0.2.1", "browser"),
        UserRecord("oidc/1", "a@a.org", True, "A", {"a": {"b": 1}}, 5.0),
        DirectoryUser("oidc/1", "a@a.org", "A", ("g1", "g2")),
        DirectoryUser("oidc/1", is_deactivated=True, issuer="https://idp.example.com"),
        DirectoryGroup("g1", "engineering", "eng@a.org", "https://idp.example.com"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_value_comes_back_as_it_went(value):
    record = await MemoryStore().put("any", value.id, value.to_data())
    assert type(value).from_record(record) == value


def test_a_printed_session_shows_no_token():
    session = SessionRecord("s", "oidc/1", "1", "oidc", 1.0, 2.0, {}, "secret-1", "secret-2", "secret-3")
    assert "secret" not in repr(session)


async def test_a_printed_record_shows_no_token():
    session = SessionRecord("s", "oidc/1", "1", "oidc", 1.0, 2.0, {}, "secret-1", "secret-2", "secret-3")
    assert "secret" not in repr(await MemoryStore().put(SESSION, "s", session.to_data()))


@pytest.mark.parametrize("kind", [SessionRecord, UserRecord, DirectoryUser, DirectoryGroup], ids=lambda kind: kind.__name__)
def test_additions_of_a_later_release_are_skipped(kind: type) -> None:
    value = SessionRecord("s", "oidc/1", "1", "oidc", 1.0, 2.0) if kind is SessionRecord else kind("s")
    assert kind.from_record(Record("any", "s", {**value.to_data(), "of_a_later_release": 1}, 1, 0.0)) == value


def test_of_a_service_account_nothing_is_passed_over() -> None:
    account = ServiceAccountRecord("ci", (), 1.0, 2.0, "hash")
    with pytest.raises(TypeError):
        ServiceAccountRecord.from_record(Record("any", "ci", {**account.to_data(), "networks": ["192.0.2.0/24"]}, 1, 0.0))


VALID = SessionRecord("s1", "oidc/1", "1", "oidc", 1000.0, 2000.0).to_data()


@pytest.mark.parametrize(
    "change",
    [
        {"user_id": ""},
        {"subject": None},
        {"provider": 3},
        {"claims": None},
        {"claims": ["a"]},
        {"id": "s2"},
        {"expires_at": "9e9"},
        {"expires_at": float("nan")},
        {"expires_at": float("inf")},
        {"expires_at": None},
        {"issued_at": None},
    ],
    ids=repr,
)
def test_a_record_that_can_be_no_session_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        SessionRecord.from_record(Record(SESSION, "s1", {**VALID, **change}, 1, 0.0))


@pytest.mark.parametrize("kind", [DirectoryUser, DirectoryGroup], ids=lambda kind: kind.__name__)
def test_an_issuer_that_is_no_text_makes_a_record_malformed(kind: type) -> None:
    with pytest.raises(TypeError):
        kind.from_record(Record("any", "s", {"id": "s", "issuer": 7}, 1, 0.0))
