"""Sessions of the authenticate host: made, found and ended here, and nowhere else."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable

import structlog

from authenticate.provider.sign_in_result import AskedAnother, SignedIn
from authenticate.session.session_index import ProviderSessions
from authorize.identity.identity_builder import linked_id_for
from config.options import Options
from databroker.broker_client import BrokerClient, Edited, update
from databroker.end_sessions import batches, end_sessions, session_ids_of_user
from databroker.records import SESSION, USER, Record, SessionRecord
from databroker.session_reader import SessionReader, user_of, vouches
from foundation.crypto.session_cookie import SessionCookies
from foundation.errors import BadRequest, BrokerError

log = structlog.get_logger(__name__)

MAX_USER_AGENT = 256
# Live sessions of one account: the store holds the claims of each.
MAX_SESSIONS = 100
# Seconds after which a session that is in the index, and not in the store, has ended: the index is written first.
WRITE_TIME = 60.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
# One more sign-in ends them all, so that a record stays small.
MAX_EARLIER = 8


class SignedOutMeanwhile(BadRequest):
    """The person has signed out at the provider while this sign-in was under way."""


class Sessions:
    """Sessions of one set of Options, in the data broker.  BrokerError."""

    def __init__(self, options: Options, broker: BrokerClient):
        self._broker = broker
        self.at_provider = ProviderSessions(broker)
        self._cookies = SessionCookies(options)
        self._lifetime = options.cookie_expire.total_seconds()
        self._reader = SessionReader(options)
        # Of the configuration that has replaced this one while its last requests end.
        self.successor: SessionReader | None = None

    async def create(
        self,
        signed_in: SignedIn,
        now: float,
        *,
        client_address: str,
        user_agent: str,
        before: SessionRecord | None,
        attempts: Collection[str] = (),
    ) -> SessionRecord:
        """A new session with an id of its own, whatever the browser brought along: nothing planted before sign-in is promoted.

        `before` is the session that this browser had: a weaker one that goes on where other hosts have it, and ends with this one;
        somebody else's ends now.  `attempts` are this sign-in and those that other tabs of the browser have under way: their sessions of
        the same account end together.
        SignedOutMeanwhile; AskedAnother where a configuration without the provider has replaced this one.
        """
        session = self._new(signed_in, now, client_address, user_agent, before)
        # The user first: whoever sees the session finds its user, too.
        await self._broker.put(USER, signed_in.user.id, signed_in.user.to_data())
        # The index before the session: whoever ends what the provider says must find it.
        linked_id = linked_id_for(signed_in.user, session.claims, self._reader.providers.get(session.provider))
        await self.at_provider.remember(session, linked_id)
        await self._broker.put(SESSION, session.id, session.to_data(), expires=session.expires_at)
        if await self.at_provider.has_signed_out(session):
            await self.end(session)
            raise SignedOutMeanwhile("you signed out at the identity provider during this sign-in")
        # Asked when the session is written: either the sweep of the new configuration finds it (RemovedProviders), or we know of that one.
        if self.successor is not None and not vouches(self.successor.providers.get(session.provider), session):
            await self.end(session)
            raise AskedAnother(session.effective_issuer)
        if before is not None and before.id not in session.superseded_ids:
            await self.end(before)
        for other in await self.at_provider.beside(session, attempts):
            await self._end_together(session, other)
        log.info("signed in", session_id=session.id, user_id=session.user_id, client_address=client_address)
        return session

    def _new(self, signed_in: SignedIn, now: float, client_address: str, user_agent: str, before: SessionRecord | None) -> SessionRecord:
        return SessionRecord(
            id=secrets.token_urlsafe(32),
            user_id=signed_in.user.id,
            subject=signed_in.subject,
            provider=signed_in.provider,
            issued_at=now,
            expires_at=now + self._lifetime,
            claims=signed_in.user.claims,
            userinfo_claims=signed_in.userinfo_claims,
            id_token=signed_in.tokens.id_token,
            access_token=signed_in.tokens.access_token,
            refresh_token=signed_in.tokens.refresh_token,
            access_token_expires_at=signed_in.tokens.expires,
            client_address=client_address,
            user_agent=user_agent[:MAX_USER_AGENT],
            superseded_ids=_earlier(before, signed_in.user.id),
            issuer=signed_in.user.issuer,
        )

    async def _end_together(self, session: SessionRecord, other_id: str) -> None:
        """Have each of two sessions of one browser end with the other, where they are of one account."""
        other = await self._broker.get(SESSION, other_id)
        if other is None or (found := self._reader.read(other)) is None:
            return  # its own sign-in looks for this one when it is written
        if (found.user_id, found.effective_issuer) == (session.user_id, session.effective_issuer):
            await asyncio.gather(self._add_earlier(session.id, other_id), self._add_earlier(other_id, session.id))

    async def _add_earlier(self, id: str, other_id: str) -> None:
        def edit(record: Record | None) -> Edited | None:
            earlier = tuple(record.data.get("superseded_ids", ())) if record is not None else ()
            if record is None or other_id in earlier or len(earlier) >= MAX_EARLIER:
                return None
            return {**record.data, "superseded_ids": (*earlier, other_id)}, record.data["expires_at"]

        # Each attempt fails by another tab's write, of which there are at most MAX_EARLIER, or by a refresh.
        await update(self._broker, SESSION, id, edit, attempts=2 * MAX_EARLIER)

    async def find(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> SessionRecord | None:
        """The live session of this browser at this host; a cookie that is not ours is passed over, never an error."""

        async def live(session_id: str, now: float) -> SessionRecord | None:
            record = await self._broker.get(SESSION, session_id)
            session = self._reader.read(record) if record is not None else None
            return session if session is not None and session.expires_at > now else None

        return await self._cookies.active_session(cookie_headers, host_port, now, live)

    # enforcement-point: Sign-in and sign-out: Sessions of a user
    async def own(self, session: SessionRecord, id: str, now: float) -> SessionRecord | None:
        """The live session of this id, where it is of the same person as `session`, by another account that is linked, too; of anybody
        else's it says what it says of none.
        """
        record = await self._broker.get(SESSION, id) if _ID.fullmatch(id) else None
        found = self._reader.read(record) if record is not None else None
        if found is None or found.expires_at <= now:
            return None
        return found if await self._are_of_one_person(session, found) else None

    async def _are_of_one_person(self, one: SessionRecord, other: SessionRecord) -> bool:
        if (other.user_id, other.effective_issuer) == (one.user_id, one.effective_issuer):
            return True
        linked_id = await self.linked_id(one)
        return bool(linked_id) and await self.linked_id(other) == linked_id

    async def linked_id(self, session: SessionRecord) -> str:
        """Id of the person whose account this session is of, by their record; "" where accounts of its provider are not linked."""
        provider = self._reader.providers.get(session.provider)
        if provider is None or not provider.links_by_email:
            return ""
        return linked_id_for(user_of(session, await self._broker.get(USER, session.user_id)), session.claims, provider)

    @property
    def links_accounts(self) -> bool:
        """Whether accounts of any provider are linked."""
        return any(provider.links_by_email for provider in self._reader.providers.values())

    async def index_linked(self, session: SessionRecord) -> None:
        """Index a session under the id that its account has in this configuration."""
        if linked_id := await self.linked_id(session):
            await self.at_provider.remember(session, linked_id)

    async def _ids_of_person(self, session: SessionRecord) -> AsyncGenerator[str]:
        """Sessions of this account, and of those that are linked with it, which may have become another person's since they began."""
        for id in (*await session_ids_of_user(self._broker, session.user_id), session.id):
            yield id
        accounts = {session.user_id}
        async for id in self.at_provider.sessions_of_linked(await self.linked_id(session)):
            record = await self._broker.get(SESSION, id)
            found = self._reader.read(record) if record is not None else None
            if found is None or not await self._are_of_one_person(session, found):
                continue
            yield id
            if found.user_id in accounts:
                continue
            accounts.add(found.user_id)
            # A sign-in elsewhere may have verified the address since: then the account's other sessions are this person's, too.
            for other in await session_ids_of_user(self._broker, found.user_id):
                if await self.own(session, other, 0.0) is not None:
                    yield other

    async def of_person(self, session: SessionRecord, now: float) -> list[SessionRecord]:
        """All live sessions of this session's person, in every browser, this one among them."""
        found: dict[str, SessionRecord] = {}
        async for ids in batches(self._ids_of_person(session)):
            for own in await asyncio.gather(*(self.own(session, id, now) for id in dict.fromkeys(ids) if id not in found)):
                if own is not None:
                    found[own.id] = own
        return list(found.values())

    async def end_oldest(self, session: SessionRecord, now: float) -> list[SessionRecord]:
        """End the oldest sessions of this account beyond MAX_SESSIONS, never this one; return them.  BrokerError."""
        indexed = await self.at_provider.of_account(session)
        if len(indexed) <= MAX_SESSIONS:
            return []
        live = list[SessionRecord]()
        for id, written in indexed.items():
            record = await self._broker.get(SESSION, id)
            if record is None and written < now - WRITE_TIME:
                await self.at_provider.forget_ended(session, id)
            elif record is not None and (found := self._reader.read(record)) is not None and id != session.id:
                live.append(found)
        live = [each for each in live if each.user_id == session.user_id]  # the index has all cases of the id
        live.sort(key=lambda each: each.issued_at)
        oldest = live[: max(len(live) + 1 - MAX_SESSIONS, 0)]
        for each in oldest:
            await self.end(each)
        if oldest:
            log.warning("oldest sessions ended: account limit", user_id=session.user_id, sessions=len(oldest), maximum=MAX_SESSIONS)
        return oldest

    async def end_carried(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> None:
        """End the sessions that the cookies of a request name, whether or not they count: who signs out leaves none behind."""
        for id in await end_sessions(self._broker, self._cookies.all_session_ids(cookie_headers, host_port, now)):
            log.info("signed out", session_id=id)

    async def end_all_of(self, session: SessionRecord) -> int:
        """End all sessions of this person, in every browser, with the programs that act by them; returns how many there were."""
        ended = [id async for ids in batches(self._ids_of_person(session)) for id in await end_sessions(self._broker, ids)]
        log.info("signed out on all devices", user_id=session.user_id, sessions=len(ended))
        return len(ended)

    async def end(self, session: SessionRecord) -> None:
        """End a session everywhere: each host's cookie names one of these records."""
        await end_sessions(self._broker, [session.id])
        try:
            await self.at_provider.forget(session, await self.linked_id(session))
        except BrokerError as error:  # what stays in the index is harmless, and whoever asked must learn that the session has ended
            log.warning("removing session index entry failed", session_id=session.id, reason=str(error))
        log.info("signed out", session_id=session.id, user_id=session.user_id)

    def set_cookies(self, session: SessionRecord, host_port: str, now: float) -> list[str]:
        return self._cookies.set_cookies(session.id, host_port, issued_at=session.issued_at, expires_at=session.expires_at, now=now)

    def clear_cookies(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        return self._cookies.clear_cookies(cookie_headers, host_port, path)

    def clear_conflicting(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        return self._cookies.clear_conflicting(cookie_headers, host_port, path)


def _earlier(before: SessionRecord | None, user_id: str) -> tuple[str, ...]:
    if before is None or before.user_id != user_id or len(before.superseded_ids) >= MAX_EARLIER:
        return ()
    return (before.id, *before.superseded_ids)
