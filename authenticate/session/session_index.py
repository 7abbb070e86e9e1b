"""Index from the provider's sessions and people to our sessions: records, read by the beginning of their ids."""

import asyncio
from collections.abc import AsyncGenerator, Collection

from databroker.broker_client import BrokerClient, Edited, update
from databroker.end_sessions import index_entries, index_key, session_id_of, user_key
from databroker.records import LOGOUT_MARKER, SESSION_INDEX, LogoutMarker, Record, SessionIndexEntry, SessionRecord

# A sign-in that was under way when its person signed out at the provider ends no later than this; in seconds.
SIGN_IN_TAKES = 600.0
# Writers of one note: an attempt fails only where another sign-out of the same session or user was written.
NOTE_ATTEMPTS = 20


class ProviderSessions:
    """The index: each session is written under its `sid`, where the provider gives one, and under its `sub`, both of its issuer; and
    under our own id of its account, and of its person where accounts are linked.

    The entries expire with the session.  One of a session that ended before is harmless: ids are never used again.
    """

    def __init__(self, broker: BrokerClient):
        self._broker = broker

    async def remember(self, session: SessionRecord, linked_id: str = "") -> None:
        """`linked_id` is the person's whose account it is, where accounts are linked."""
        entry = SessionIndexEntry(subject=_text(session, "sub")).to_data()
        keys = _keys_of(session, linked_id)
        await asyncio.gather(*(self._broker.put(SESSION_INDEX, f"{key}/{session.id}", entry, expires=session.expires_at) for key in keys))

    async def beside(self, session: SessionRecord, attempts: Collection[str]) -> set[str]:
        """Sessions that sign-ins of these attempts have begun, this one left out, after noting that this one is of them, too."""
        keys = [index_key("", "attempt", attempt) for attempt in attempts]
        entry, ends = SessionIndexEntry(subject=_text(session, "sub")).to_data(), session.issued_at + SIGN_IN_TAKES
        await asyncio.gather(*(self._broker.put(SESSION_INDEX, f"{key}/{session.id}", entry, expires=ends) for key in keys))
        return {session_id_of(entry) for key in keys async for entry in index_entries(self._broker, key)} - {session.id}

    async def forget(self, session: SessionRecord, linked_id: str = "") -> None:
        keys = _keys_of(session, linked_id)
        await asyncio.gather(*(self._broker.delete(SESSION_INDEX, f"{key}/{session.id}") for key in keys))

    async def session_ids(self, issuer: str, *, subject: str, sid: str) -> AsyncGenerator[str]:
        """Sessions of this `sid`; with a subject too only where it is that one's; of the subject where `sid` is empty."""
        async for entry in index_entries(self._broker, index_key(issuer, "sid", sid) if sid else index_key(issuer, "sub", subject)):
            if not subject or SessionIndexEntry.from_record(entry).subject == subject:
                yield session_id_of(entry)

    async def subjects(self, issuer: str, sid: str) -> set[str]:
        """Subjects of the sessions of this `sid`: one, unless the provider gives it to several people."""
        key = index_key(issuer, "sid", sid)
        return {SessionIndexEntry.from_record(entry).subject async for entry in index_entries(self._broker, key)} - {""}

    async def of_account(self, session: SessionRecord) -> dict[str, float]:
        """Sessions in the index of this account, ended ones among them, with the time of their entry."""
        key = user_key(session.user_id)
        return {session_id_of(entry): entry.modified async for entry in index_entries(self._broker, key)}

    async def forget_ended(self, account: SessionRecord, session_id: str) -> None:
        """Take a session that is over out of the index of its account."""
        await self._broker.delete(SESSION_INDEX, f"{user_key(account.user_id)}/{session_id}")

    async def sessions_of_linked(self, linked_id: str) -> AsyncGenerator[str]:
        """Sessions that began as this person's, of any account; whose they are now, their records say."""
        for key in _keys_of_linked(linked_id):
            async for entry in index_entries(self._broker, key):
                yield session_id_of(entry)

    async def note_sign_out(self, issuer: str, *, subject: str, sid: str, issued: float, now: float) -> None:
        """Note a sign-out for sign-ins under way, whose sessions are not written yet. A later sign-out's note stays."""

        def edit(known: Record | None) -> Edited | None:
            if known is not None and LogoutMarker.from_record(known).issued_at > issued:
                return None
            return LogoutMarker(issued).to_data(), now + SIGN_IN_TAKES

        await update(self._broker, LOGOUT_MARKER, _note_key(issuer, subject, sid), edit, attempts=NOTE_ATTEMPTS)

    async def has_signed_out(self, session: SessionRecord) -> bool:
        """Whether this person has signed out at the provider since it vouched for them.  Asked when the session is written, so that
        either the one who ends sessions finds it, or we find the note.
        """
        issued = session.claims.get("iat")
        vouched = issued if isinstance(issued, int | float) else session.issued_at
        notes = await asyncio.gather(*(self._broker.get(LOGOUT_MARKER, key) for key in _note_keys(session)))
        return any(note is not None and vouched <= LogoutMarker.from_record(note).issued_at for note in notes)


def _keys_of(session: SessionRecord, linked_id: str) -> list[str]:
    """Index keys of a session; of the provider's only where it gave an ID token: else it has no issuer, and can't report a sign-out."""
    issuer = _text(session, "iss")
    names = {"sid": _text(session, "sid"), "sub": _text(session, "sub")}
    keys = [index_key(issuer, name, value) for name, value in names.items() if issuer and value]
    return [*keys, user_key(session.user_id), *_keys_of_linked(linked_id)]


def _keys_of_linked(linked_id: str) -> list[str]:
    return [index_key("", "linked", linked_id)] if linked_id else []


def _note_key(issuer: str, subject: str, sid: str) -> str:
    """Key of a sign-out's note: a provider may give one `sid` to several users, each of whom signs out at a time of their own."""
    return index_key(issuer, sid, subject)


def _note_keys(session: SessionRecord) -> list[str]:
    issuer, subject, sid = (_text(session, name) for name in ("iss", "sub", "sid"))
    named = {(subject, ""), ("", sid), (subject, sid)} - {("", "")}
    return [_note_key(issuer, *names) for names in named] if issuer else []


def _text(session: SessionRecord, name: str) -> str:
    value = session.claims.get(name)
    return value if isinstance(value, str) else ""
