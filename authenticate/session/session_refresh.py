"""Session refresh: new tokens and claims from the provider, under one lease per session.

Nothing is written if the session ends concurrently.
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
from authenticate.provider.provider_errors import InvalidAccessToken, SubjectMismatch
from authenticate.provider.tokens.signed_token import InvalidSignedToken
from authenticate.provider.tokens.token_response import InvalidGrant
from authenticate.session.refresh_grant import exchange_refresh_token, reload_claims, was_revoked
from authenticate.session.refresh_schedule import tokens_due
from databroker.broker_client import BrokerClient, Edited, update
from databroker.end_sessions import end_sessions
from databroker.records import SESSION, USER, Record, SessionRecord, UserRecord
from databroker.store.base import VersionConflict
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError, ProviderError
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

# Longer than all calls to the provider that one refresh makes. Each takes at most ten seconds.
LEASE_SECONDS = 60.0
WRITE_RETRY_TIMEOUT = 15.0  # seconds; together with the rest well within the lease
INITIAL_BACKOFF = 0.1
# Why a refresh ended a session: the provider rejected the grant, its response is invalid, or it was unavailable for too long.
REFUSED, INVALID, UNREACHABLE = "refused", "invalid", "unreachable"
# Session fields that a token refresh and a reload of claims replace.
_TOKEN_FIELDS = ("access_token", "refresh_token", "access_token_expires_at", "tokens_received_at", "unverified_id_token")
_CLAIM_FIELDS = ("claims", "userinfo_claims", "id_token", "unverified_id_token")


class SessionEnded(Exception):
    """The session has ended; the message is the reason."""


class RefreshInProgress(Exception):
    """Another refresh of this session is in progress, or the provider's limit of concurrent refreshes is reached."""


class RefreshStep(Enum):
    """TOKENS uses the refresh grant; CLAIMS reads userinfo with the existing access token."""

    TOKENS = auto()
    CLAIMS = auto()


# enforcement-point: Sign-in and sign-out: Session refresh
class SessionRefresh:
    """Refresher of single sessions, each under its lease."""

    def __init__(
        self,
        client_for: Callable[[SessionRecord], ProviderClient],
        broker: BrokerClient,
        clock: Callable[[], float],
        *,
        max_per_provider: float = math.inf,
    ):
        """Initialize the refresher.

        `client_for` returns the client of a session's provider, or raises SubjectMismatch.
        At most `max_per_provider` refreshes of one provider run concurrently, so a stalled provider does not delay the others.
        """
        self._max_per_provider = max_per_provider
        self._in_progress: Counter[str] = Counter()
        self._client_for = client_for
        self._broker = broker
        self._clock = clock

    async def renew(
        self, session_id: str, step: RefreshStep, *, manual: bool = False, if_received_at: float | None = None
    ) -> SessionRecord:
        """Refresh a session and return it.

        With `if_received_at`, tokens that are still those received at exactly this time are refreshed even if they are not due.

        Raises:
            SessionEnded: the session had ended, or this refresh ended it.
            RefreshInProgress: see there.
            ProviderError: the provider is unavailable; the session is unchanged.
        """
        async with self._exclusive(session_id):
            record = await self._broker.get(SESSION, session_id)
            if record is None:
                raise SessionEnded("ended concurrently")
            session = SessionRecord.from_record(record)
            try:
                with self._slot(session.provider):
                    return await self._renew(record, session, step, manual or session.tokens_received_at == if_received_at, manual)
            except InvalidGrant as error:
                raise await self._end(session, REFUSED, error) from error
            # ClaimsTooLarge ends the session because a user whose claims grow would otherwise retain the previous groups.
            except (SubjectMismatch, ClaimsTooLarge, InvalidSignedToken) as error:
                raise await self._end(session, INVALID, error) from error

    async def end_if_expired(self, session_id: str, tokens_received_at: float, error: ProviderError) -> None:
        """End a session that the provider has not confirmed for too long. `error` is the error of the last attempt.

        A session whose tokens were not received at `tokens_received_at` continues, because another attempt succeeded.
        Raises RefreshInProgress.
        """
        async with self._exclusive(session_id):
            record = await self._broker.get(SESSION, session_id)
            if record is None:
                return
            session = SessionRecord.from_record(record)
            if session.tokens_received_at == tokens_received_at:
                await self._end(session, REFUSED if isinstance(error, InvalidAccessToken) else UNREACHABLE, error)

    async def _end(self, session: SessionRecord, kind: str, reason: object) -> SessionEnded:
        await end_sessions(self._broker, [session.id])
        metrics.session_refresh_failures.labels(kind).inc()
        # An invalid response is a warning because the operator should investigate it.
        log_event = log.warning if kind == INVALID else log.info
        log_event("session ended", session_id=session.id, user_id=session.user_id, kind=kind, reason=str(reason))
        return SessionEnded(str(reason))

    async def _renew(self, record: Record, session: SessionRecord, step: RefreshStep, is_due: bool, manual: bool) -> SessionRecord:
        now = self._clock()
        if manual:
            record = await self._write(record, lambda current: replace(current, manually_refreshed_at=now))
        # Check again because another process may have refreshed it.
        if session.refresh_token and (is_due or (step is RefreshStep.TOKENS and tokens_due(session) <= now)):
            record = await self._refresh_tokens(record)
        try:
            return await self._reload_claims(record)
        except InvalidAccessToken:
            # The access token was revoked before it expired, so the response to the refresh token decides.
            if not session.refresh_token or SessionRecord.from_record(record).access_token != session.access_token:
                raise
            return await self._reload_claims(await self._refresh_tokens(record))

    async def _refresh_tokens(self, record: Record) -> Record:
        now, session = self._clock(), SessionRecord.from_record(record)
        client = self._client_for(session)
        renewed = await exchange_refresh_token(client, session, now)
        try:
            return await self._write_with_retry(record, lambda current: _replace_fields(current, renewed, _TOKEN_FIELDS))
        except SessionEnded:
            # The user signed out during the request: the new tokens must not outlive the session.
            await client.revoke(renewed)
            raise

    async def _reload_claims(self, record: Record) -> SessionRecord:
        session = SessionRecord.from_record(record)
        client = self._client_for(session)
        user_before = await self._broker.get(USER, session.user_id)
        try:
            renewed, user = await reload_claims(client, session, self._clock())
        except InvalidAccessToken as error:
            if not session.refresh_token and was_revoked(client, session, self._clock()):
                raise await self._end(session, REFUSED, error) from error
            raise
        await self._save_user(user, user_before)
        if renewed == session:
            return session
        record = await self._write(record, lambda current: _replace_fields(current, renewed, _CLAIM_FIELDS))
        return SessionRecord.from_record(record)

    async def _save_user(self, user: UserRecord, before: Record | None) -> None:
        """Replace the user record that existed before the provider was queried. A record written since then is newer and is retained."""
        if before is not None:
            if UserRecord.from_record(before).last_sign_in_at > user.last_sign_in_at:
                return  # because the record comes from a newer session, and this one may have no newer claims
            user = replace(user, last_sign_in_at=UserRecord.from_record(before).last_sign_in_at)
            if UserRecord.from_record(before) == user:
                return
        with suppress(VersionConflict):
            await self._broker.put(USER, user.id, user.to_data(), only_if_version=0 if before is None else before.version)

    async def _write_with_retry(self, record: Record, change: Callable[[SessionRecord], SessionRecord]) -> Record:
        """Write the session, retrying for up to WRITE_RETRY_TIMEOUT because the provider no longer accepts the old refresh token."""
        now, waits = asyncio.get_running_loop().time, backoff_delays(INITIAL_BACKOFF)
        ends = now() + WRITE_RETRY_TIMEOUT
        while True:
            try:
                return await self._write(record, change)
            except BrokerError as error:
                wait = next(waits)
                if now() + wait >= ends:
                    raise
                log.warning("saving refreshed tokens failed", session_id=record.id, reason=str(error))
                await asyncio.sleep(wait)

    async def _write(self, record: Record, change: Callable[[SessionRecord], SessionRecord]) -> Record:
        """Apply the change to the current record and return the result. Raises SessionEnded if the record was deleted."""

        def edit(current: Record | None) -> Edited:
            if current is None:
                raise SessionEnded("ended concurrently")
            session = change(SessionRecord.from_record(current))
            return {**current.data, **session.to_data()}, session.expires_at  # the fields of later releases are retained

        try:
            return await update(self._broker, SESSION, record.id, edit) or record
        except VersionConflict:
            raise ProviderError("the session record was changed concurrently too often") from None

    @contextmanager
    def _slot(self, provider: str) -> Iterator[None]:
        if self._in_progress[provider] >= self._max_per_provider:
            raise RefreshInProgress
        self._in_progress[provider] += 1
        try:
            yield
        finally:
            self._in_progress[provider] -= 1

    @asynccontextmanager
    async def _exclusive(self, session_id: str) -> AsyncIterator[None]:
        """Hold the lease of one session's refresh, because a rotating refresh token that is used again ends the session at the provider."""
        lease = await self._broker.acquire(f"session refresh/{session_id}", LEASE_SECONDS)
        if lease is None:
            raise RefreshInProgress
        try:
            yield
        finally:
            await self._broker.release(lease)


def _replace_fields(session: SessionRecord, renewed: SessionRecord, names: tuple[str, ...]) -> SessionRecord:
    return replace(session, **{name: getattr(renewed, name) for name in names})
