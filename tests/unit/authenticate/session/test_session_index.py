"""The sessions of a person, or of one session at the provider, are found whole, and no others."""

from typing import Any

import pytest

from authenticate.session.session_index import MAX_SIGN_IN_SECONDS, SessionIndex
from databroker.broker_client import PAGE_SIZE as PAGE
from databroker.records import SESSION_INDEX, SessionRecord
from databroker.store.memory import MemoryStore

ISSUER = "https://idp.example.com"
NOW = 1_000.0


def session(id: str, sub: str = "alice", **claims: Any) -> SessionRecord:
    claims_ = {"iss": ISSUER, "sub": sub, "iat": NOW, **claims}
    return SessionRecord(id=id, user_id=f"oidc/{sub}", subject=sub, provider="oidc", issued_at=NOW, expires_at=NOW + 100, claims=claims_)


class Place:
    def __init__(self) -> None:
        self.now = NOW
        self.broker = MemoryStore(lambda: self.now)
        self.sessions = SessionIndex(self.broker)

    async def found(self, *, subject: str = "", sid: str = "", issuer: str = ISSUER) -> set[str]:
        return {id async for id in self.sessions.session_ids_for(issuer, subject=subject, sid=sid)}


async def test_sessions_are_found_by_sid_by_subject_and_by_both() -> None:
    place = Place()
    for each in (session("1", sid="x"), session("2", sid="x"), session("3", sid="y"), session("4"), session("5", "bob", sid="z")):
        await place.sessions.add(each)
    assert await place.found(sid="x") == {"1", "2"}
    assert await place.found(subject="alice") == {"1", "2", "3", "4"}
    assert await place.found(subject="alice", sid="y") == {"3"}
    assert await place.found(subject="bob", sid="y") == set()
    assert await place.found(subject="bob") == {"5"}
    assert await place.found(sid="alice") == await place.found(subject="x") == set()
    assert await place.found(subject="alice", issuer="https://another.example") == set()


async def test_more_than_a_page_is_found() -> None:
    place = Place()
    ids = {f"s{number}" for number in range(PAGE + 3)}
    for id in ids:
        await place.sessions.add(session(id, sid=id))
    assert await place.found(subject="alice") == ids


async def test_malformed_provider_name_is_ignored() -> None:
    place = Place()
    for number, sid in enumerate((None, 7, ["x"], {"x": 1}, "")):
        await place.sessions.add(session(str(number), sid=sid))
    await place.sessions.add(SessionRecord("gh", "github/alice", "alice", "github", NOW, NOW + 9, {"sub": "alice"}))
    assert len(await place.found(subject="alice")) == 5
    assert all(record.data == {"subject": "alice"} for record in await place.broker.page(SESSION_INDEX, "", 100))


async def test_an_entry_goes_with_its_session() -> None:
    place = Place()
    remaining, ended = session("1", sid="x"), session("2", sid="x")
    for each in (remaining, ended):
        await place.sessions.add(each)
    await place.sessions.remove(ended)
    assert await place.found(sid="x") == await place.found(subject="alice") == {"1"}
    place.now = NOW + 101
    assert await place.found(sid="x") == set()


async def test_a_sign_in_under_way_learns_of_the_sign_out() -> None:
    place = Place()
    await place.sessions.mark_logged_out(ISSUER, subject="", sid="x", issued=NOW, now=NOW)
    assert await place.sessions.is_logged_out(session("1", sid="x"))
    assert await place.sessions.is_logged_out(session("1", sid="x", iat=NOW - 5))
    assert not await place.sessions.is_logged_out(session("1", sid="x", iat=NOW + 1))
    assert not await place.sessions.is_logged_out(session("1", sid="y"))
    assert not await place.sessions.is_logged_out(session("1"))
    await place.sessions.mark_logged_out(ISSUER, subject="bob", sid="", issued=NOW, now=NOW)
    assert await place.sessions.is_logged_out(session("2", "bob", sid="q"))
    await place.sessions.mark_logged_out(ISSUER, subject="alice", sid="both", issued=NOW, now=NOW)
    assert await place.sessions.is_logged_out(session("3", sid="both"))
    assert not await place.sessions.is_logged_out(session("3", "bob", sid="both", iat=NOW + 1))
    place.now = NOW + MAX_SIGN_IN_SECONDS + 1
    assert not await place.sessions.is_logged_out(session("1", sid="x"))


async def test_a_logout_token_that_is_late_leaves_the_note_of_a_later_one() -> None:
    place = Place()
    for issued in (NOW + 10, NOW):
        await place.sessions.mark_logged_out(ISSUER, subject="alice", sid="", issued=issued, now=NOW + 10)
    assert await place.sessions.is_logged_out(session("1", iat=NOW + 5))
    assert not await place.sessions.is_logged_out(session("1", iat=NOW + 11))


async def test_of_two_notes_written_at_once_the_later_sign_out_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    get = place.broker.get

    async def overtaken(type: str, id: str) -> Any:
        monkeypatch.undo()
        known = await get(type, id)
        await place.sessions.mark_logged_out(ISSUER, subject="alice", sid="", issued=NOW + 10, now=NOW)
        return known

    monkeypatch.setattr(place.broker, "get", overtaken)
    await place.sessions.mark_logged_out(ISSUER, subject="alice", sid="", issued=NOW, now=NOW)
    assert await place.sessions.is_logged_out(session("1", iat=NOW + 5))


async def test_users_with_one_sid_sign_out_each_by_themselves() -> None:
    place = Place()
    for subject, issued in (("alice", NOW), ("bob", NOW + 10)):
        await place.sessions.mark_logged_out(ISSUER, subject=subject, sid="both", issued=issued, now=NOW)
    for subject, vouched, has_signed_out in (("alice", NOW, True), ("alice", NOW + 1, False), ("bob", NOW + 10, True), ("eve", NOW, False)):
        assert await place.sessions.is_logged_out(session("1", subject, sid="both", iat=vouched)) is has_signed_out
