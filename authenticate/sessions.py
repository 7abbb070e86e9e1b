"""Who is signed in at the authenticate host: sessions are made, found and ended here, and nowhere else."""

import secrets
from collections.abc import Iterable

import structlog

from authenticate.oidc import SignedIn
from authenticate.provider_sessions import ProviderSessions
from databroker.client import BrokerClient
from databroker.records import SESSION, USER, Record, Session
from gateproject.config.options import Options
from gateproject.crypto.session_cookie import SessionCookies
from gateproject.errors import BadRequest, BrokerError, SealError

log = structlog.get_logger(__name__)

MAX_USER_AGENT = 256
# One more sign-in ends them all, so that a record stays small.
MAX_EARLIER = 8


class SignedOutMeanwhile(BadRequest):
    """The person has signed out at the provider while this sign-in was under way."""


class Sessions:
    def __init__(self, options: Options, broker: BrokerClient):
        self._broker = broker
        self.at_provider = ProviderSessions(broker)
        self._cookies = SessionCookies(options)
        self._lifetime = options.cookie_expire.total_seconds()
        self._provider = options.idp_provider

    async def create(self, signed_in: SignedIn, now: float, *, client_address: str, user_agent: str, before: Session | None) -> Session:
        """A session with an id of its own, whatever the browser brought along: nothing planted before sign-in is promoted.

        `before` is the session that this browser had: a weaker one that goes on where other hosts have it, and ends with this one;
        somebody else's ends now.
        SignedOutMeanwhile.
        """
        session = Session(
            id=secrets.token_urlsafe(32),
            user_id=signed_in.user.id,
            subject=signed_in.subject,
            provider=self._provider,
            issued=now,
            expires=now + self._lifetime,
            claims=signed_in.user.claims,
            id_token=signed_in.tokens.id_token,
            access_token=signed_in.tokens.access_token,
            refresh_token=signed_in.tokens.refresh_token,
            access_token_expires=signed_in.tokens.expires,
            client_address=client_address,
            user_agent=user_agent[:MAX_USER_AGENT],
            earlier=_earlier(before, signed_in.user.id),
        )
        # The user first: whoever sees the session finds its user, too.
        await self._broker.put(USER, signed_in.user.id, signed_in.user.to_data())
        # The index before the session: whoever ends what the provider says must find it.
        await self.at_provider.remember(session)
        await self._broker.put(SESSION, session.id, session.to_data(), expires=session.expires)
        if await self.at_provider.has_signed_out(session):
            await self.end(session)
            raise SignedOutMeanwhile("you signed out at the sign-in service while this sign-in was under way")
        if before is not None and before.id not in session.earlier:
            await self.end(before)
        log.info("signed in", session_id=session.id, user_id=session.user_id, client_address=client_address)
        return session

    async def find(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Session | None:
        """The live session of this browser at this host; a cookie that is not ours is passed over, never an error."""
        for value in self._cookies.read(cookie_headers):
            try:
                token = self._cookies.open(value, host_port, now)
            except SealError:
                continue
            record = await self._broker.get(SESSION, token.session_id)
            if record is not None and (session := _readable(record)) is not None and session.expires > now:
                return session
        return None

    async def end(self, session: Session) -> None:
        """Over everywhere: each host's cookie names one of these records.

        The one that names the others goes last: where the broker fails before, whoever tries again finds all that is left.
        """
        for id in (*session.earlier, session.id):
            await self._broker.delete(SESSION, id)
        try:
            await self.at_provider.forget(session)
        except BrokerError as error:  # what stays in the index is harmless, and whoever asked must learn that the session has ended
            log.warning("an ended session stays in the index of the provider's sessions", session_id=session.id, reason=str(error))
        log.info("signed out", session_id=session.id, user_id=session.user_id)

    def set_cookie(self, session: Session, host_port: str, now: float) -> str:
        value = self._cookies.seal(session.id, host_port, session.issued, session.expires)
        return self._cookies.set_cookie(value, host_port, session.expires, now)

    def clear_cookie(self, host_port: str) -> str:
        return self._cookies.clear_cookie(host_port)


def _readable(record: Record) -> Session | None:
    """A record that makes no sense counts as none: who has it signs in anew."""
    try:
        return Session.from_record(record)
    except (TypeError, ValueError) as error:
        log.warning("a session's record is malformed, so it counts as none", session_id=record.id, error=type(error).__name__)
        return None


def _earlier(before: Session | None, user_id: str) -> tuple[str, ...]:
    if before is None or before.user_id != user_id or len(before.earlier) >= MAX_EARLIER:
        return ()
    return (before.id, *before.earlier)
