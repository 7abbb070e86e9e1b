"""Sessions of the authenticate host: the only module that creates, finds and ends them."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable
from dataclasses import replace

import structlog

from authenticate.provider.sign_in_result import ProviderMismatch, SignInResult
from authenticate.session.session_index import SessionIndex
from authorize.identity.identity_builder import linked_id_for
from config.options import Options
from databroker.agent_records import AgentAuthorization
from databroker.broker_client import BrokerClient, Edited, update
from databroker.end_sessions import batched, end_sessions, session_ids_for_user
from databroker.records import SESSION, USER, Record, SessionRecord
from databroker.session_reader import SessionReader, is_session_issuer, user_for_session
from foundation.crypto.session_cookie import SessionCookies
from foundation.errors import BadRequest, BrokerError

log = structlog.get_logger(__name__)

MAX_USER_AGENT = 256
# Live sessions per account, because the store holds the claims of each.
MAX_SESSIONS_PER_ACCOUNT = 100
# Age in seconds from which an index entry without a session means that it has ended: the index is written first.
WRITE_SECONDS = 60.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
# Bounds the record: at the limit, the next sign-in ends the previous session and links to none.
MAX_LINKED_SESSIONS = 8


class LoggedOutDuringSignIn(BadRequest):
    """The user signed out at the provider during this sign-in."""


class SessionService:
    """Sessions of one configuration, in the data broker. Methods raise BrokerError."""

    def __init__(self, options: Options, broker: BrokerClient):
        self._broker = broker
        self.index = SessionIndex(broker)
        self._cookies = SessionCookies(options)
        self._lifetime = options.cookie_expire.total_seconds()
        self._reader = SessionReader(options)
        # Reader of the configuration that has replaced this one while its last requests finish.
        self.successor_reader: SessionReader | None = None

    async def create(
        self,
        result: SignInResult,
        now: float,
        *,
        client_address: str,
        user_agent: str,
        previous: SessionRecord | None,
        attempt_ids: Collection[str] = (),
        session_id: str = "",
        agent: AgentAuthorization | None = None,
    ) -> SessionRecord:
        """Create a session with a new id, so that a cookie injected before sign-in is never promoted (session fixation).

        `previous` is the browser's session before this sign-in. If it belongs to the same account and has fewer than
        MAX_LINKED_SESSIONS links, it is linked: other hosts may still use it, and it ends with the new session. Otherwise it ends now.
        `attempt_ids` are those of this sign-in and of sign-ins in other tabs of the browser: their sessions of the same account are linked.
        `agent` makes it the session of an OAuth client, with an id of `new_session_id`. It expires with the authorization code.

        Raises:
            LoggedOutDuringSignIn: the user signed out at the provider during the sign-in.
            ProviderMismatch: a new configuration without the provider is in force.
        """
        session = self._build(result, now, client_address, user_agent, previous)
        if agent is not None and agent.code is not None:
            session = replace(session, id=session_id, agent=agent, expires_at=agent.code.expires_at)
        # The user first, so that a reader of the session finds its user.
        await self._broker.put(USER, result.user.id, result.user.to_data())
        # The index before the session, so that a provider-initiated logout finds it.
        linked_id = linked_id_for(result.user, session.claims, self._reader.providers.get(session.provider))
        await self.index.add(session if agent is None else replace(session, expires_at=agent.expires_at), linked_id)
        await self._broker.put(SESSION, session.id, session.to_data(), expires=session.expires_at)
        if await self.index.is_logged_out(session):
            await self.end(session)
            raise LoggedOutDuringSignIn("you signed out at the identity provider during this sign-in")
        # After the write: either the cleanup of the new configuration finds the session (RemovedProviders), or this check does.
        if self.successor_reader is not None and not is_session_issuer(self.successor_reader.providers.get(session.provider), session):
            await self.end(session)
            raise ProviderMismatch(session.effective_issuer)
        if previous is not None and previous.id not in session.linked_session_ids:
            await self.end(previous)
        for other_id in await self.index.add_attempts(session, attempt_ids):
            await self._add_mutual_links(session, other_id)
        log.info("signed in", session_id=session.id, user_id=session.user_id, client_address=client_address)
        return session

    def _build(
        self, result: SignInResult, now: float, client_address: str, user_agent: str, previous: SessionRecord | None
    ) -> SessionRecord:
        return SessionRecord(
            id=new_session_id(),
            user_id=result.user.id,
            subject=result.subject,
            provider=result.provider,
            issued_at=now,
            expires_at=now + self._lifetime,
            claims=result.user.claims,
            userinfo_claims=result.userinfo_claims,
            id_token=result.tokens.id_token,
            access_token=result.tokens.access_token,
            refresh_token=result.tokens.refresh_token,
            access_token_expires_at=result.tokens.expires_at,
            client_address=client_address,
            user_agent=user_agent[:MAX_USER_AGENT],
            linked_session_ids=_initial_links(previous, result.user.id),
            issuer=result.user.issuer,
        )

    async def _add_mutual_links(self, session: SessionRecord, other_id: str) -> None:
        """Link two sessions of one browser, so that they end together, if they belong to one account. Neither ends now."""
        other = await self._broker.get(SESSION, other_id)
        if other is None or (found := self._reader.read_valid(other)) is None:
            return  # because the other sign-in looks for this session when it is written
        if (found.user_id, found.effective_issuer) == (session.user_id, session.effective_issuer):
            await asyncio.gather(self._add_link(session.id, other_id), self._add_link(other_id, session.id))

    async def _add_link(self, id: str, other_id: str) -> None:
        def edit(record: Record | None) -> Edited | None:
            links = tuple(record.data.get("linked_session_ids", ())) if record is not None else ()
            if record is None or other_id in links or len(links) >= MAX_LINKED_SESSIONS:
                return None
            return {**record.data, "linked_session_ids": (*links, other_id)}, record.data["expires_at"]

        # A write conflicts only with those of other tabs, at most MAX_LINKED_SESSIONS, or with a refresh.
        await update(self._broker, SESSION, id, edit, attempts=2 * MAX_LINKED_SESSIONS)

    async def find(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> SessionRecord | None:
        """Return the live session of this browser at this host, or None. Cookies that gate did not set are ignored."""

        async def live(session_id: str, now: float) -> SessionRecord | None:
            record = await self._broker.get(SESSION, session_id)
            session = self._reader.read_valid(record) if record is not None else None
            # A session of an agent is valid with its tokens only, never by a cookie.
            is_live = session is not None and session.agent is None and session.expires_at > now
            return session if is_live else None

        return await self._cookies.find_only_session(cookie_headers, host_port, now, live)

    # enforcement-point: Sign-in and sign-out: Sessions of a user
    async def get_for_same_user(self, session: SessionRecord, id: str, now: float) -> SessionRecord | None:
        """Return the live session with this id if it belongs to the same user as `session` (linked accounts included), else None.

        Missing sessions and those of other users are indistinguishable on purpose.
        """
        record = await self._broker.get(SESSION, id) if _ID.fullmatch(id) else None
        found = self._reader.read_valid(record) if record is not None else None
        if found is None or found.expires_at <= now:
            return None
        return found if await self._is_same_user(session, found) else None

    async def _is_same_user(self, one: SessionRecord, other: SessionRecord) -> bool:
        if (other.user_id, other.effective_issuer) == (one.user_id, one.effective_issuer):
            return True
        linked_id = await self.linked_id(one)
        return bool(linked_id) and await self.linked_id(other) == linked_id

    async def linked_id(self, session: SessionRecord) -> str:
        """Return the linked id of the session's account, "" if accounts of its provider are not linked."""
        provider = self._reader.providers.get(session.provider)
        if provider is None or not provider.links_by_email:
            return ""
        return linked_id_for(user_for_session(session, await self._broker.get(USER, session.user_id)), session.claims, provider)

    @property
    def links_accounts(self) -> bool:
        """Whether accounts of any provider are linked."""
        return any(provider.links_by_email for provider in self._reader.providers.values())

    async def index_linked(self, session: SessionRecord) -> None:
        """Index a session under the linked id of its account in this configuration."""
        if linked_id := await self.linked_id(session):
            await self.index.add(session, linked_id)

    async def _session_ids_for(self, session: SessionRecord) -> AsyncGenerator[str]:
        """Yield the ids of sessions of this account and of accounts linked with it.

        A linked account may belong to another user since its session started, so each is checked.
        """
        for id in (*await session_ids_for_user(self._broker, session.user_id), session.id):
            yield id
        accounts = {session.user_id}
        async for id in self.index.session_ids_for_linked(await self.linked_id(session)):
            record = await self._broker.get(SESSION, id)
            found = self._reader.read_valid(record) if record is not None else None
            if found is None or not await self._is_same_user(session, found):
                continue
            yield id
            if found.user_id in accounts:
                continue
            accounts.add(found.user_id)
            # A later sign-in may have verified the address: then the account's other sessions belong to this user as well.
            for other in await session_ids_for_user(self._broker, found.user_id):
                if await self.get_for_same_user(session, other, 0.0) is not None:
                    yield other

    async def list_for_same_user(self, session: SessionRecord, now: float) -> list[SessionRecord]:
        """Return all live sessions of this session's user, in every browser, including this one."""
        found: dict[str, SessionRecord] = {}
        async for ids in batched(self._session_ids_for(session)):
            for record in await asyncio.gather(*(self.get_for_same_user(session, id, now) for id in dict.fromkeys(ids) if id not in found)):
                if record is not None:
                    found[record.id] = record
        return list(found.values())

    async def end_oldest(self, session: SessionRecord, now: float) -> list[SessionRecord]:
        """End the oldest sessions of this account beyond MAX_SESSIONS_PER_ACCOUNT, never this one, and return them."""
        indexed = await self.index.entries_for_account(session)
        if len(indexed) <= MAX_SESSIONS_PER_ACCOUNT:
            return []
        live = list[SessionRecord]()
        for id, written in indexed.items():
            record = await self._broker.get(SESSION, id)
            if record is None and written < now - WRITE_SECONDS:
                await self.index.remove_ended(session, id)
            elif record is not None and (found := self._reader.read_valid(record)) is not None and id != session.id:
                live.append(found)
        live = [each for each in live if each.user_id == session.user_id]  # because the index ignores the case of the id
        live.sort(key=lambda each: each.issued_at)
        oldest = live[: max(len(live) + 1 - MAX_SESSIONS_PER_ACCOUNT, 0)]
        for each in oldest:
            await self.end(each)
        if oldest:
            log.warning(
                "oldest sessions ended: account limit", user_id=session.user_id, sessions=len(oldest), maximum=MAX_SESSIONS_PER_ACCOUNT
            )
        return oldest

    async def end_from_cookies(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> None:
        """End the sessions that the cookies of a request name, valid or not, so that a sign-out leaves none behind."""
        for id in await end_sessions(self._broker, self._cookies.all_session_ids(cookie_headers, host_port, now)):
            log.info("signed out", session_id=id)

    async def end_all_for(self, session: SessionRecord) -> int:
        """End all sessions of this user, in every browser, with the client applications that use them. Return how many ended."""
        ended = [id async for ids in batched(self._session_ids_for(session)) for id in await end_sessions(self._broker, ids)]
        log.info("signed out on all devices", user_id=session.user_id, sessions=len(ended))
        return len(ended)

    async def end(self, session: SessionRecord) -> None:
        """End a session everywhere, because the cookies of all hosts refer to these records."""
        await end_sessions(self._broker, [session.id])
        try:
            await self.index.remove(session, await self.linked_id(session))
        except BrokerError as error:  # a stale index entry is harmless, and the caller must learn that the session has ended
            log.warning("removing session index entry failed", session_id=session.id, reason=str(error))
        log.info("signed out", session_id=session.id, user_id=session.user_id)

    def set_cookies(self, session: SessionRecord, host_port: str, now: float) -> list[str]:
        return self._cookies.set_cookies(session.id, host_port, issued_at=session.issued_at, expires_at=session.expires_at, now=now)

    def clear_cookies(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        return self._cookies.clear_cookies(cookie_headers, host_port, path)

    def clear_conflicting(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        return self._cookies.clear_conflicting(cookie_headers, host_port, path)


def new_session_id() -> str:
    return secrets.token_urlsafe(32)


def _initial_links(previous: SessionRecord | None, user_id: str) -> tuple[str, ...]:
    """Return the ids that a new session links: `previous` and its links, unless it is of another user or at the limit."""
    if previous is None or previous.user_id != user_id or len(previous.linked_session_ids) >= MAX_LINKED_SESSIONS:
        return ()
    return (previous.id, *previous.linked_session_ids)
