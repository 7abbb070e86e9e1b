"""Index from the provider's sessions and users to gate's sessions: records that are read by id prefix."""

import asyncio
from collections.abc import AsyncGenerator, Collection

from databroker.broker_client import BrokerClient, Edited, update
from databroker.end_sessions import index_entries, index_key, indexed_session_id, user_key
from databroker.records import LOGOUT_MARKER, SESSION_INDEX, LogoutMarker, Record, SessionIndexEntry, SessionRecord

# Longest time that a sign-in takes. Logout markers expire after it.
MAX_SIGN_IN_SECONDS = 600.0
# An attempt to write a marker fails only if another sign-out of the same session or user is written concurrently.
MAX_MARK_ATTEMPTS = 20


class SessionIndex:
    """The index.

    A session is indexed under its issuer's `sid` (if the provider returns one) and `sub`, under the id of its account, and
    under the linked id if accounts are linked.

    Entries expire with the session. The entry of a session that ended earlier is harmless because session ids are never reused.
    """

    def __init__(self, broker: BrokerClient):
        self._broker = broker

    async def add(self, session: SessionRecord, linked_id: str = "") -> None:
        """Index a session. `linked_id` identifies the user if the account is linked."""
        entry = SessionIndexEntry(subject=_text_claim(session, "sub")).to_data()
        keys = _index_keys(session, linked_id)
        await asyncio.gather(*(self._broker.put(SESSION_INDEX, f"{key}/{session.id}", entry, expires=session.expires_at) for key in keys))

    async def add_attempts(self, session: SessionRecord, attempt_ids: Collection[str]) -> set[str]:
        """Index a session under the sign-in attempts of its browser, and return the ids of the other sessions that they started."""
        keys = [index_key("", "attempt", state) for state in attempt_ids]
        entry, ends = SessionIndexEntry(subject=_text_claim(session, "sub")).to_data(), session.issued_at + MAX_SIGN_IN_SECONDS
        await asyncio.gather(*(self._broker.put(SESSION_INDEX, f"{key}/{session.id}", entry, expires=ends) for key in keys))
        return {indexed_session_id(entry) for key in keys async for entry in index_entries(self._broker, key)} - {session.id}

    async def remove(self, session: SessionRecord, linked_id: str = "") -> None:
        keys = _index_keys(session, linked_id)
        await asyncio.gather(*(self._broker.delete(SESSION_INDEX, f"{key}/{session.id}") for key in keys))

    async def session_ids_for(self, issuer: str, *, subject: str, sid: str) -> AsyncGenerator[str]:
        """Yield the ids of sessions with this `sid`, or with this subject if `sid` is empty.

        If both are given, both must match.
        """
        async for entry in index_entries(self._broker, index_key(issuer, "sid", sid) if sid else index_key(issuer, "sub", subject)):
            if not subject or SessionIndexEntry.from_record(entry).subject == subject:
                yield indexed_session_id(entry)

    async def subjects(self, issuer: str, sid: str) -> set[str]:
        """Return the subjects of the sessions with this `sid`: one, unless the provider assigns the `sid` to several users."""
        key = index_key(issuer, "sid", sid)
        return {SessionIndexEntry.from_record(entry).subject async for entry in index_entries(self._broker, key)} - {""}

    async def entries_for_account(self, session: SessionRecord) -> dict[str, float]:
        """Return the ids of indexed sessions of this account, including ended ones, with the time of their entry."""
        key = user_key(session.user_id)
        return {indexed_session_id(entry): entry.modified async for entry in index_entries(self._broker, key)}

    async def remove_ended(self, account: SessionRecord, session_id: str) -> None:
        """Remove an ended session from the index of its account."""
        await self._broker.delete(SESSION_INDEX, f"{user_key(account.user_id)}/{session_id}")

    async def session_ids_for_linked(self, linked_id: str) -> AsyncGenerator[str]:
        """Yield the ids of sessions that started with this linked id. Their records decide whether they still have it."""
        for key in _linked_keys(linked_id):
            async for entry in index_entries(self._broker, key):
                yield indexed_session_id(entry)

    async def mark_logged_out(self, issuer: str, *, subject: str, sid: str, issued: float, now: float) -> None:
        """Mark a sign-out for sign-ins in progress, whose sessions are not written yet. The marker of a later sign-out is retained."""

        def edit(known: Record | None) -> Edited | None:
            if known is not None and LogoutMarker.from_record(known).issued_at > issued:
                return None
            return LogoutMarker(issued).to_data(), now + MAX_SIGN_IN_SECONDS

        await update(self._broker, LOGOUT_MARKER, _marker_key(issuer, subject, sid), edit, attempts=MAX_MARK_ATTEMPTS)

    async def is_logged_out(self, session: SessionRecord) -> bool:
        """Return whether the user has signed out at the provider since the ID token was issued.

        Call this after the session is written: then either the logout finds the session, or this finds the marker.
        """
        iat = session.claims.get("iat")
        issued_at = iat if isinstance(iat, int | float) else session.issued_at
        markers = await asyncio.gather(*(self._broker.get(LOGOUT_MARKER, key) for key in _marker_keys(session)))
        return any(marker is not None and issued_at <= LogoutMarker.from_record(marker).issued_at for marker in markers)


def _index_keys(session: SessionRecord, linked_id: str) -> list[str]:
    """Return the index keys of a session.

    Without an ID token there is no issuer, so there are no keys for the provider: it can't report a sign-out.
    """
    issuer = _text_claim(session, "iss")
    names = {"sid": _text_claim(session, "sid"), "sub": _text_claim(session, "sub")}
    keys = [index_key(issuer, name, value) for name, value in names.items() if issuer and value]
    return [*keys, user_key(session.user_id), *_linked_keys(linked_id)]


def _linked_keys(linked_id: str) -> list[str]:
    return [index_key("", "linked", linked_id)] if linked_id else []


def _marker_key(issuer: str, subject: str, sid: str) -> str:
    """Return the key of a logout marker. It has both parts because a provider may assign one `sid` to several users."""
    return index_key(issuer, sid, subject)


def _marker_keys(session: SessionRecord) -> list[str]:
    issuer, subject, sid = (_text_claim(session, name) for name in ("iss", "sub", "sid"))
    named = {(subject, ""), ("", sid), (subject, sid)} - {("", "")}
    return [_marker_key(issuer, *names) for names in named] if issuer else []


def _text_claim(session: SessionRecord, name: str) -> str:
    value = session.claims.get(name)
    return value if isinstance(value, str) else ""
