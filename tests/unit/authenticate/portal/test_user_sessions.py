"""User sessions: the current one first, then the newest; superseded ones are hidden."""

from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from authenticate.portal import user_sessions as module
from authenticate.portal.user_sessions import MAX_LISTED, list_user_sessions, other_sessions
from authenticate.session.session_service import SessionService
from databroker.projection.rows import LastSeen
from databroker.records import SESSION, SessionRecord
from databroker.store.memory import MemoryStore
from tests.support.options import MINIMAL, make_options

NOW = 1_000.0


@pytest.fixture
def broker() -> MemoryStore:
    return MemoryStore(lambda: NOW)


@pytest.fixture
def sessions(tmp_path: Path, broker: MemoryStore) -> SessionService:
    return SessionService(make_options(tmp_path), broker)


async def made(broker: MemoryStore, sessions: SessionService, id: str, **facts: Any) -> SessionRecord:
    claims = {
        "user_id": "oidc/1",
        "subject": "1",
        "provider": "oidc",
        "issued_at": 1.0,
        "expires_at": 5_000.0,
        "issuer": MINIMAL["idp_provider_url"],
    }
    session = SessionRecord(id=id, **{**claims, **facts})
    await sessions.index.add(session)
    await broker.put(SESSION, id, session.to_data(), expires=session.expires_at)
    return session


async def test_superseded_sessions_are_hidden(broker: MemoryStore, sessions: SessionService) -> None:
    this = await made(broker, sessions, "this", issued_at=9.0, linked_session_ids=("weak",))
    await made(broker, sessions, "weak")
    await made(broker, sessions, "old", issued_at=2.0)
    await made(broker, sessions, "new", issued_at=3.0, linked_session_ids=("new-weak",))
    await made(broker, sessions, "new-weak")
    await made(broker, sessions, "over", expires_at=NOW)
    await made(broker, sessions, "of-another", user_id="oidc/2", subject="2")
    assert [each.id for each in await other_sessions(sessions, this, NOW)] == ["new", "old"]


async def test_last_seen_if_available(broker: MemoryStore, sessions: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    this, _ = await made(broker, sessions, "this"), await made(broker, sessions, "other")
    monkeypatch.setattr(module, "load_last_seen", lambda ids: {"other": LastSeen(7.0, "wiki.example.com")})
    found = await list_user_sessions(sessions, broker, this, NOW)
    assert [(each.id, each.is_current, each.last_seen_at) for each in found] == [
        ("this", True, None),
        ("other", False, LastSeen(7.0, "wiki.example.com")),
    ]

    def fails(ids: list[str]) -> dict[str, LastSeen]:
        raise OperationalError("the database is away")

    monkeypatch.setattr(module, "load_last_seen", fails)
    assert [each.last_seen_at for each in await list_user_sessions(sessions, broker, this, NOW)] == [None, None]


async def test_list_is_limited(broker: MemoryStore, sessions: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_last_seen", lambda ids: {})
    this = await made(broker, sessions, "this")
    for number in range(MAX_LISTED + 5):
        await made(broker, sessions, f"other-{number}", issued_at=float(number))
    found = await list_user_sessions(sessions, broker, this, NOW)
    assert (len(found), found[0].id, found[1].id) == (MAX_LISTED, "this", f"other-{MAX_LISTED + 4}")


async def test_same_id_at_another_issuer_is_another_user(tmp_path: Path, broker: MemoryStore) -> None:
    sessions = SessionService(make_options(tmp_path, idp_provider="azure", idp_provider_url=None), broker)
    own, foreign = (
        f"https://login.microsoftonline.com/{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}/v2.0" for digit in "12"
    )
    azure = {"provider": "azure", "user_id": "azure/1"}
    this = await made(broker, sessions, "this", issuer=own, **azure)
    await made(broker, sessions, "mine", issuer=own, **azure)
    await made(broker, sessions, "theirs", issuer=foreign, **azure)
    assert [each.id for each in await other_sessions(sessions, this, NOW)] == ["mine"]
    assert await sessions.get_for_same_user(this, "theirs", NOW) is None
