"""Logout by the provider: the sessions of ours that end when somebody has signed out there."""

import hashlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable

import structlog

from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.logout_token import LOGOUT_TOKEN
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.signed_token import WrongToken
from authenticate.session.other_session_refresh import OtherSessions
from authenticate.session.session_index import SIGN_IN_TAKES, ProviderSessions
from databroker.broker_client import BrokerClient, consume_once
from databroker.end_sessions import batches, end_sessions
from databroker.records import SESSION, USED_ID
from foundation.errors import BadRequest
from foundation.telemetry.logs import BoundedLog
from foundation.web.message import Message

# Back-channel tokens are signed; of a front-channel request only this can't be guessed.
SHORTEST_UNGUESSABLE = 16

# Notes of front-channel sign-outs in `SIGN_IN_TAKES`, of one process: anybody can send such requests.
MAX_NOTES = 10_000

log = structlog.get_logger(__name__)


class ProviderLogout:
    """Back-channel and front-channel logout."""

    def __init__(self, clients: ProviderClients, broker: BrokerClient, sessions: ProviderSessions, clock: Callable[[], float]):
        self._clients = clients
        self._broker = broker
        self._sessions = sessions
        self._clock = clock
        self._others = OtherSessions(broker, clock)
        self._notes: deque[float] = deque()
        self._full = BoundedLog("front-channel logout not noted")

    async def stop(self) -> None:
        await self._others.stop()

    async def by_token(self, token: str) -> int:
        """Number of sessions that a logout token has ended.  WrongToken, WrongTime; ProviderError, BrokerError where that can't be told
        now.
        """
        signed_out = await self._sender(token).verified_logout(token)
        spent = "logout/" + hashlib.sha256(json.dumps([signed_out.issuer, signed_out.id]).encode()).hexdigest()
        # Spent when all is done: a provider that tries again after our failure must not hear that it had been here before.
        if await self._broker.get(USED_ID, spent) is not None:
            raise WrongToken("the logout token was used before")
        whom = {"subject": signed_out.subject, "sid": signed_out.sid}
        await self._sessions.note_sign_out(signed_out.issuer, **whom, issued=signed_out.issued, now=self._clock())
        ended = await self._end(self._sessions.session_ids(signed_out.issuer, **whom))
        await self._refresh_others(signed_out.issuer, **whom)
        await consume_once(self._broker, spent, signed_out.expires)
        log.info("back-channel logout", sessions=ended, subject=signed_out.subject or None)
        return ended

    async def by_browser(self, issuer: str, sid: str) -> int:
        """Number of sessions that a front-channel request has ended: anybody can send one, but only who knows the `sid` ends its
        sessions.  BadRequest.
        """
        client = self._clients.of_issuer(issuer)
        if client is None or not client.provider.gives_id_token:
            raise BadRequest(Message("the issuer (iss) is not a configured identity provider"))
        if len(sid) < SHORTEST_UNGUESSABLE:
            raise BadRequest(Message("the session id (sid) is missing or too short"))
        await self._note(issuer, sid)
        ended = await self._end(self._sessions.session_ids(issuer, subject="", sid=sid))
        if ended:  # anybody can send the request again
            await self._refresh_others(issuer, subject="", sid=sid)
        log.info("front-channel logout", sessions=ended)
        return ended

    async def _note(self, issuer: str, sid: str) -> None:
        """Note a front-channel sign-out for sign-ins under way, unless strangers have had as many noted as there may be."""
        now = self._clock()
        while self._notes and self._notes[0] <= now - SIGN_IN_TAKES:
            self._notes.popleft()
        if len(self._notes) >= MAX_NOTES:
            self._full.emit(maximum=MAX_NOTES)
            return
        self._notes.append(now)
        await self._sessions.note_sign_out(issuer, subject="", sid=sid, issued=now, now=now)

    def _sender(self, token: str) -> ProviderClient:
        """The client of the provider that a token names, by which it must be verified; WrongToken where none is called so."""
        issuer = LOGOUT_TOKEN.parts(token)[1].get("iss")
        client = self._clients.of_issuer(issuer) if isinstance(issuer, str) else None
        if client is None:
            raise WrongToken("the logout token has another issuer")
        return client

    async def origins(self, issuer: str) -> str:
        """Origins of the pages of the provider that calls itself so; "" for none.  ProviderError."""
        client = self._clients.of_issuer(issuer)
        return await client.origins() if client is not None else ""

    async def _refresh_others(self, issuer: str, *, subject: str, sid: str) -> None:
        """Refresh what is left of the user's sessions: Keycloak's *Log out all sessions* sends one `sid` for all of them."""
        for each in {subject} if subject else await self._sessions.subjects(issuer, sid):
            left = [id async for id in self._sessions.session_ids(issuer, subject=each, sid="") if await self._broker.get(SESSION, id)]
            self._others.refresh_soon(issuer, each, left)

    async def _end(self, ids: AsyncGenerator[str]) -> int:
        ended = 0
        async for batch in batches(ids):
            for id in await end_sessions(self._broker, batch):
                ended += 1
                log.info("session ended", session_id=id, reason="the user signed out at the provider")
        return ended
