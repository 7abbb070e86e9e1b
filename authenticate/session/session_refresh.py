"""Session refresh: new tokens and claims from the provider, one call at a time for each session, written where nobody has ended it
meanwhile.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from enum import Enum, auto

import structlog

from authenticate.provider.claim_limits import ClaimsTooLarge
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_errors import AccessRefused, AnotherPerson
from authenticate.provider.signed_token import WrongToken
from authenticate.provider.token_response import GrantRefused
from authenticate.session.refresh_grant import is_withdrawn, with_new_claims, with_new_tokens
from authenticate.session.refresh_schedule import tokens_due
from databroker.broker_client import BrokerClient, Edited, update
from databroker.end_sessions import end_sessions
from databroker.records import SESSION, USER, Record, SessionRecord, UserRecord
from databroker.store.base import VersionConflict
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError, ProviderError
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

# Longer than all calls to the provider that one renewal makes, each of ten seconds at most.
LEASE = 60.0
INSISTENCE = 15.0  # seconds; together with the rest well within the lease
FIRST_PAUSE = 0.1
# Why a renewal ended a session: the provider said so, its answer can't be believed, it could not be asked until too late.
REFUSED, WRONG, UNREACHABLE = "refused", "wrong", "unreachable"
# Fields of a session that new tokens, and new claims, are.
_OF_TOKENS = ("access_token", "refresh_token", "access_token_expires_at", "tokens_received_at", "unverified_id_token")
_OF_CLAIMS = ("claims", "userinfo_claims", "id_token", "unverified_id_token")


class SessionEnded(Exception):
    """The session is over; the text says why."""


class RefreshUnderWay(Exception):
    """Another refresh of this session is running, or as many of its provider as may."""


class RefreshStep(Enum):
    """Tokens (a refresh grant), or claims (userinfo with the tokens there are)."""

    TOKENS = auto()
    CLAIMS = auto()


# enforcement-point: Sign-in and sign-out: Session refresh
class SessionRefresh:
    """Refresher of single sessions, each under a lease of its own."""

    def __init__(
        self,
        client_of: Callable[[SessionRecord], ProviderClient],
        broker: BrokerClient,
        clock: Callable[[], float],
        *,
        share: float = math.inf,
    ):
        """`client_of` a session is that of its provider; AnotherPerson where there is none.  So many refreshes at a time are a provider's
        `share`: one that does not answer keeps nobody else's waiting.
        """
        self._share = share
        self._under_way: Counter[str] = Counter()
        self._client_of = client_of
        self._broker = broker
        self._clock = clock

    async def renew(self, session_id: str, step: RefreshStep, *, by_hand: bool = False, older_than: float | None = None) -> SessionRecord:
        """The refreshed session; SessionEnded where it was over, or is now; RefreshUnderWay; ProviderError where the provider could not
        say, then all is as before.

        `older_than`: tokens that were received at that time are refreshed though they are not due, and no later ones.
        """
        async with self._alone(session_id):
            record = await self._broker.get(SESSION, session_id)
            if record is None:
                raise SessionEnded("ended concurrently")
            session = SessionRecord.from_record(record)
            try:
                with self._turn(session.provider):
                    return await self._renewed(record, session, step, by_hand or session.tokens_received_at == older_than, by_hand)
            except GrantRefused as error:
                raise await self._ended(session, REFUSED, error) from error
            # Else a user whose claims grow would keep the groups of before.
            except (AnotherPerson, ClaimsTooLarge, WrongToken) as error:
                raise await self._ended(session, WRONG, error) from error

    async def give_up(self, session_id: str, tokens_received_at: float, error: ProviderError) -> None:
        """End a session for which the provider has not vouched for too long; `error` is that of the last attempt.

        Raises RefreshUnderWay. A session with other tokens than those received at `tokens_received_at` goes on: another attempt succeeded.
        """
        async with self._alone(session_id):
            record = await self._broker.get(SESSION, session_id)
            if record is None:
                return
            session = SessionRecord.from_record(record)
            if session.tokens_received_at == tokens_received_at:
                await self._ended(session, REFUSED if isinstance(error, AccessRefused) else UNREACHABLE, error)

    async def _ended(self, session: SessionRecord, kind: str, reason: object) -> SessionEnded:
        await end_sessions(self._broker, [session.id])
        metrics.session_refresh_failures.labels(kind).inc()
        # What no provider should answer is for the operator to look at.
        tell = log.warning if kind == WRONG else log.info
        tell("session ended", session_id=session.id, user_id=session.user_id, kind=kind, reason=str(reason))
        return SessionEnded(str(reason))

    async def _renewed(self, record: Record, session: SessionRecord, step: RefreshStep, is_due: bool, by_hand: bool) -> SessionRecord:
        now = self._clock()
        if by_hand:
            record = await self._written(record, lambda current: replace(current, manually_refreshed_at=now))
        # Another process may have refreshed it since it was due.
        if session.refresh_token and (is_due or (step is RefreshStep.TOKENS and tokens_due(session) <= now)):
            record = await self._with_new_tokens(record)
        try:
            return await self._with_new_claims(record)
        except AccessRefused:
            # The token was withdrawn before its time; what the provider says to the refresh token decides.
            if not session.refresh_token or SessionRecord.from_record(record).access_token != session.access_token:
                raise
            return await self._with_new_claims(await self._with_new_tokens(record))

    async def _with_new_tokens(self, record: Record) -> Record:
        now, session = self._clock(), SessionRecord.from_record(record)
        client = self._client_of(session)
        renewed = await with_new_tokens(client, session, now)
        try:
            return await self._written_at_last(record, lambda current: _with(current, renewed, _OF_TOKENS))
        except SessionEnded:
            # Signed out while the provider answered: what it gave must not outlive the session.
            await client.revoke(renewed)
            raise

    async def _with_new_claims(self, record: Record) -> SessionRecord:
        session = SessionRecord.from_record(record)
        client = self._client_of(session)
        user_before = await self._broker.get(USER, session.user_id)
        try:
            renewed, user = await with_new_claims(client, session, self._clock())
        except AccessRefused as error:
            if not session.refresh_token and is_withdrawn(client, session, self._clock()):
                raise await self._ended(session, REFUSED, error) from error
            raise
        await self._remember(user, user_before)
        if renewed == session:
            return session
        record = await self._written(record, lambda current: _with(current, renewed, _OF_CLAIMS))
        return SessionRecord.from_record(record)

    async def _remember(self, user: UserRecord, before: Record | None) -> None:
        """Write the user over the record that was there before the provider was asked: one that came since then is newer."""
        if before is not None:
            if UserRecord.from_record(before).last_sign_in_at > user.last_sign_in_at:
                return  # the provider's word to a newer session; to this one it may have said nothing new
            user = replace(user, last_sign_in_at=UserRecord.from_record(before).last_sign_in_at)
            if UserRecord.from_record(before) == user:
                return
        with suppress(VersionConflict):
            await self._broker.put(USER, user.id, user.to_data(), only_if_version=0 if before is None else before.version)

    async def _written_at_last(self, record: Record, change: Callable[[SessionRecord], SessionRecord]) -> Record:
        """The written session, also where the broker comes back within INSISTENCE: the provider takes the old refresh token no more."""
        now, waits = asyncio.get_running_loop().time, backoff_delays(FIRST_PAUSE)
        ends = now() + INSISTENCE
        while True:
            try:
                return await self._written(record, change)
            except BrokerError as error:
                wait = next(waits)
                if now() + wait >= ends:
                    raise
                log.warning("saving refreshed tokens failed", session_id=record.id, reason=str(error))
                await asyncio.sleep(wait)

    async def _written(self, record: Record, change: Callable[[SessionRecord], SessionRecord]) -> Record:
        """The record with this change, on whatever it is by now; SessionEnded where it is no longer there: a delete always wins."""

        def edit(current: Record | None) -> Edited:
            if current is None:
                raise SessionEnded("ended concurrently")
            session = change(SessionRecord.from_record(current))
            return {**current.data, **session.to_data()}, session.expires_at  # with what a later release has written there

        try:
            return await update(self._broker, SESSION, record.id, edit) or record
        except VersionConflict:
            raise ProviderError("the session record was changed concurrently too often") from None

    @contextmanager
    def _turn(self, provider: str) -> Iterator[None]:
        if self._under_way[provider] >= self._share:
            raise RefreshUnderWay
        self._under_way[provider] += 1
        try:
            yield
        finally:
            self._under_way[provider] -= 1

    @asynccontextmanager
    async def _alone(self, session_id: str) -> AsyncIterator[None]:
        """Lease of one session's refresh: a rotating refresh token used twice ends the session at the provider."""
        lease = await self._broker.acquire(f"session refresh/{session_id}", LEASE)
        if lease is None:
            raise RefreshUnderWay
        try:
            yield
        finally:
            await self._broker.release(lease)


def _with(session: SessionRecord, renewed: SessionRecord, names: tuple[str, ...]) -> SessionRecord:
    return replace(session, **{name: getattr(renewed, name) for name in names})
