"""Provider-initiated logout: end gate's sessions of a user who signed out at the provider."""

import hashlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable

import structlog

from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.tokens.logout_token import LOGOUT_TOKEN
from authenticate.provider.tokens.signed_token import InvalidSignedToken
from authenticate.session.other_session_refresh import OtherSessionRefresh
from authenticate.session.session_index import MAX_SIGN_IN_SECONDS, SessionIndex
from databroker.broker_client import BrokerClient, consume_once
from databroker.end_sessions import batched, end_sessions
from databroker.records import SESSION, USED_ID
from foundation.errors import BadRequest
from foundation.telemetry.logs import BoundedLog
from foundation.web.message import Message

# A front-channel request is not signed, unlike a back-channel token: its `sid` is the only value that can't be guessed.
MIN_SID_LENGTH = 16

# Front-channel sign-outs per process that are marked within MAX_SIGN_IN_SECONDS, because any client can send such requests.
MAX_MARKS = 10_000

log = structlog.get_logger(__name__)


class ProviderLogout:
    """Back-channel logout (OpenID Connect Back-Channel Logout 1.0) and front-channel logout."""

    def __init__(self, clients: ProviderClients, broker: BrokerClient, sessions: SessionIndex, clock: Callable[[], float]):
        self._clients = clients
        self._broker = broker
        self._sessions = sessions
        self._clock = clock
        self._others = OtherSessionRefresh(broker, clock)
        self._marks: deque[float] = deque()
        self._limit_log = BoundedLog("front-channel logout not recorded")

    async def stop(self) -> None:
        await self._others.stop()

    async def back_channel(self, token: str) -> int:
        """End the sessions that a logout token names, and return how many.

        Raises InvalidSignedToken or TokenNotCurrent; ProviderError or BrokerError if the token can't be verified now.
        """
        request = await self._client_for(token).verify_logout_token(token)
        used_id = "logout/" + hashlib.sha256(json.dumps([request.issuer, request.id]).encode()).hexdigest()
        # Recorded as used at the end, so that a retry after a failure is not rejected as a replay.
        if await self._broker.get(USED_ID, used_id) is not None:
            raise InvalidSignedToken("the logout token was used before")
        target = {"subject": request.subject, "sid": request.sid}
        await self._sessions.mark_logged_out(request.issuer, **target, issued=request.issued_at, now=self._clock())
        ended = await self._end(self._sessions.session_ids_for(request.issuer, **target))
        await self._refresh_others(request.issuer, **target)
        await consume_once(self._broker, used_id, request.expires_at)
        log.info("back-channel logout", sessions=ended, subject=request.subject or None)
        return ended

    async def front_channel(self, issuer: str, sid: str) -> int:
        """End the sessions that a front-channel request names, and return how many. Raises BadRequest.

        Any client can send such a request, but it ends sessions only if it knows their `sid`.
        """
        client = self._clients.for_issuer(issuer)
        if client is None or not client.provider.issues_id_token:
            raise BadRequest(Message("the issuer (iss) is not a configured identity provider"))
        if len(sid) < MIN_SID_LENGTH:
            raise BadRequest(Message("the session id (sid) is missing or too short"))
        await self._mark_logged_out(issuer, sid)
        ended = await self._end(self._sessions.session_ids_for(issuer, subject="", sid=sid))
        if ended:  # because any client can repeat the request
            await self._refresh_others(issuer, subject="", sid=sid)
        log.info("front-channel logout", sessions=ended)
        return ended

    async def _mark_logged_out(self, issuer: str, sid: str) -> None:
        """Mark a front-channel sign-out for sign-ins in progress, up to MAX_MARKS of them."""
        now = self._clock()
        while self._marks and self._marks[0] <= now - MAX_SIGN_IN_SECONDS:
            self._marks.popleft()
        if len(self._marks) >= MAX_MARKS:
            self._limit_log.emit(maximum=MAX_MARKS)
            return
        self._marks.append(now)
        await self._sessions.mark_logged_out(issuer, subject="", sid=sid, issued=now, now=now)

    def _client_for(self, token: str) -> ProviderClient:
        """Return the client of the provider that the token names as its issuer. Raises InvalidSignedToken if there is none."""
        issuer = LOGOUT_TOKEN.split(token)[1].get("iss")
        client = self._clients.for_issuer(issuer) if isinstance(issuer, str) else None
        if client is None:
            raise InvalidSignedToken("the logout token has another issuer")
        return client

    async def origins(self, issuer: str) -> str:
        """Return the origins of the pages of the provider with this issuer, "" if there is none. Raises ProviderError."""
        client = self._clients.for_issuer(issuer)
        return await client.origins() if client is not None else ""

    async def _refresh_others(self, issuer: str, *, subject: str, sid: str) -> None:
        """Refresh the user's remaining sessions, because Keycloak's *Log out all sessions* sends one `sid` for all of them."""
        for each in {subject} if subject else await self._sessions.subjects(issuer, sid):
            left = [id async for id in self._sessions.session_ids_for(issuer, subject=each, sid="") if await self._broker.get(SESSION, id)]
            self._others.refresh_soon(issuer, each, left)

    async def _end(self, ids: AsyncGenerator[str]) -> int:
        ended = 0
        async for batch in batched(ids):
            for id in await end_sessions(self._broker, batch):
                ended += 1
                log.info("session ended", session_id=id, reason="the user signed out at the provider")
        return ended
