"""Index from the provider's sessions and people to our sessions: records, read by the beginning of their ids."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress

from databroker.client import BrokerClient, every
from databroker.records import PROVIDER_SESSION, SIGNED_OUT, ProviderSession, Record, SessionRecord, SignedOutNote
from databroker.store.base import VersionConflict

# A sign-in that was under way when its person signed out at the provider ends no later than this; in seconds.
SIGN_IN_TAKES = 600.0


class ProviderSessions:
    """The index: each session is written under its `sid`, where the provider gives one, and under its `sub`, both of its issuer; and
    under our own id of its account, and of its person where accounts are linked.

    The entries expire with the session.  One of a session that ended before is harmless: ids are never used again.
    """

    def __init__(self, broker: BrokerClient):
        self._broker = broker

    async def remember(self, session: SessionRecord, linked_id: str = "") -> None:
        """`linked_id` is the person's whose account it is, where accounts are linked."""
        entry = ProviderSession(subject=_text(session, "sub")).to_data()
        keys = [*_keys_of(session), _key_of_person(session), *_keys_of_linked(linked_id)]
        await asyncio.gather(*(self._broker.put(PROVIDER_SESSION, f"{key}/{session.id}", entry, expires=session.expires) for key in keys))

    async def beside(self, session: SessionRecord, attempts: Collection[str]) -> set[str]:
        """Sessions that sign-ins of these attempts have begun, this one left out, after noting that this one is of them, too."""
        keys = [_key("", "attempt", attempt) for attempt in attempts]
        entry, ends = ProviderSession(subject=_text(session, "sub")).to_data(), session.issued + SIGN_IN_TAKES
        await asyncio.gather(*(self._broker.put(PROVIDER_SESSION, f"{key}/{session.id}", entry, expires=ends) for key in keys))
        return {_session_id(record) for key in keys async for record in self._under(key)} - {session.id}

    async def forget(self, session: SessionRecord, linked_id: str = "") -> None:
        keys = [*_keys_of(session), _key_of_person(session), *_keys_of_linked(linked_id)]
        await asyncio.gather(*(self._broker.delete(PROVIDER_SESSION, f"{key}/{session.id}") for key in keys))

    async def session_ids(self, issuer: str, *, subject: str, sid: str) -> AsyncGenerator[str]:
        """Sessions of this `sid`; with a subject too only where it is that one's; of the subject where `sid` is empty."""
        async for record in self._under(_key(issuer, "sid", sid) if sid else _key(issuer, "sub", subject)):
            if not subject or ProviderSession.from_record(record).subject == subject:
                yield _session_id(record)

    async def subjects(self, issuer: str, sid: str) -> set[str]:
        """Subjects of the sessions of this `sid`: one, unless the provider gives it to several people."""
        return {ProviderSession.from_record(record).subject async for record in self._under(_key(issuer, "sid", sid))} - {""}

    async def sessions_of(self, session: SessionRecord) -> AsyncGenerator[str]:
        """Sessions of this session's person, this one included.  One that a release before ours wrote is found by its `sub` alone."""
        for key in (_key_of_person(session), *_keys_by_subject(session)):
            async for record in self._under(key):
                yield _session_id(record)
        yield session.id

    async def of_account(self, session: SessionRecord) -> dict[str, float]:
        """Sessions in the index of this account, ended ones among them, with the time of their entry."""
        return {_session_id(record): record.modified async for record in self._under(_key_of_person(session))}

    async def forget_ended(self, account: SessionRecord, session_id: str) -> None:
        """Take a session that is over out of the index of its account."""
        await self._broker.delete(PROVIDER_SESSION, f"{_key_of_person(account)}/{session_id}")

    async def sessions_of_linked(self, linked_id: str) -> AsyncGenerator[str]:
        """Sessions that began as this person's, of any account; whose they are now, their records say."""
        for key in _keys_of_linked(linked_id):
            async for record in self._under(key):
                yield _session_id(record)

    async def _under(self, key: str) -> AsyncGenerator[Record]:
        prefix = f"{key}/"
        async with aclosing(every(self._broker, PROVIDER_SESSION, prefix)) as records:
            async for record in records:
                if not record.id.startswith(prefix):
                    return
                yield record

    async def note_sign_out(self, issuer: str, *, subject: str, sid: str, issued: float, now: float) -> None:
        """Note a sign-out for sign-ins under way, whose sessions are not written yet. A later sign-out's note stays."""
        key = _note_key(issuer, subject, sid)
        while True:
            known = await self._broker.get(SIGNED_OUT, key)
            if known is not None and SignedOutNote.from_record(known).issued > issued:
                return
            version = known.version if known is not None else 0
            with suppress(VersionConflict):
                note = SignedOutNote(issued).to_data()
                await self._broker.put(SIGNED_OUT, key, note, expires=now + SIGN_IN_TAKES, only_if_version=version)
                return

    async def has_signed_out(self, session: SessionRecord) -> bool:
        """Whether this person has signed out at the provider since it vouched for them.  Asked when the session is written, so that
        either the one who ends sessions finds it, or we find the note.
        """
        issued = session.claims.get("iat")
        vouched = issued if isinstance(issued, int | float) else session.issued
        notes = await asyncio.gather(*(self._broker.get(SIGNED_OUT, key) for key in _note_keys(session)))
        return any(note is not None and vouched <= SignedOutNote.from_record(note).issued for note in notes)


def _keys_of(session: SessionRecord) -> list[str]:
    """Index keys of a session; None where the provider gave no ID token: it has no issuer, and no way to tell us of a sign-out."""
    issuer = _text(session, "iss")
    names = {"sid": _text(session, "sid"), "sub": _text(session, "sub")}
    return [_key(issuer, name, value) for name, value in names.items() if issuer and value]


def _keys_by_subject(session: SessionRecord) -> list[str]:
    issuer, subject = _text(session, "iss"), _text(session, "sub")
    return [_key(issuer, "sub", subject)] if issuer and subject else []


def _key_of_person(session: SessionRecord) -> str:
    """Index key of a person of any provider: some give no ID token."""
    return _key("", "user", session.user_id)


def _keys_of_linked(linked_id: str) -> list[str]:
    return [_key("", "linked", linked_id)] if linked_id else []


def _note_key(issuer: str, subject: str, sid: str) -> str:
    """Key of a sign-out's note: a provider may give one `sid` to several users, each of whom signs out at a time of their own."""
    return _key(issuer, sid, subject)


def _note_keys(session: SessionRecord) -> list[str]:
    issuer, subject, sid = (_text(session, name) for name in ("iss", "sub", "sid"))
    named = {(subject, ""), ("", sid), (subject, sid)} - {("", "")}
    return [_note_key(issuer, *names) for names in named] if issuer else []


def _session_id(record: Record) -> str:
    return record.id.partition("/")[2]


def _key(issuer: str, name: str, value: str) -> str:
    """An index key of one length, so that the beginning of an id is never that of another key."""
    return hashlib.sha256(json.dumps([issuer, name, value]).encode()).hexdigest()


def _text(session: SessionRecord, name: str) -> str:
    value = session.claims.get(name)
    return value if isinstance(value, str) else ""
