"""Logout by the provider: the sessions of ours that end when somebody has signed out there."""

import hashlib
import json
from collections.abc import AsyncGenerator, Callable

import structlog

from authenticate.provider.client import ProviderClient
from authenticate.provider.issuer import is_issuer
from authenticate.provider.signed_token import WrongToken
from authenticate.session.provider_sessions import ProviderSessions
from databroker.client import BrokerClient
from databroker.end_sessions import batches, end_sessions
from databroker.records import SPENT
from foundation.errors import BadRequest

# Back-channel tokens are signed; of a front-channel request only this can't be guessed.
SHORTEST_UNGUESSABLE = 16

log = structlog.get_logger(__name__)


class ProviderLogout:
    """Back-channel and front-channel logout."""

    def __init__(self, client: ProviderClient, broker: BrokerClient, sessions: ProviderSessions, clock: Callable[[], float]):
        self._client = client
        self._broker = broker
        self._sessions = sessions
        self._clock = clock

    async def by_token(self, token: str) -> int:
        """Number of sessions that a logout token has ended.  WrongToken, WrongTime; ProviderError, BrokerError where that can't be told
        now.
        """
        signed_out = await self._client.verified_logout(token)
        spent = "logout/" + hashlib.sha256(json.dumps([signed_out.issuer, signed_out.id]).encode()).hexdigest()
        # Spent when all is done: a provider that tries again after our failure must not hear that it had been here before.
        if await self._broker.get(SPENT, spent) is not None:
            raise WrongToken("the logout token was used before")
        whom = {"subject": signed_out.subject, "sid": signed_out.sid}
        await self._sessions.note_sign_out(signed_out.issuer, **whom, issued=signed_out.issued, now=self._clock())
        ended = await self._end(self._sessions.session_ids(signed_out.issuer, **whom))
        await self._broker.spend(spent, signed_out.expires)
        log.info("signed out at the provider", sessions=ended, subject=signed_out.subject or None)
        return ended

    async def by_browser(self, issuer: str, sid: str) -> int:
        """Number of sessions that a front-channel request has ended: anybody can send one, but only who knows the `sid` ends its
        sessions.  BadRequest.
        """
        discovery = await self._client.discovery()
        if not self._client.provider.gives_id_token or not is_issuer(discovery.issuer, issuer):
            raise BadRequest("this is about another sign-in service than ours")
        if len(sid) < SHORTEST_UNGUESSABLE:
            raise BadRequest("it names no session, or one that anybody could guess")
        ended = await self._end(self._sessions.session_ids(issuer, subject="", sid=sid))
        log.info("signed out at the provider, said a browser", sessions=ended)
        return ended

    async def _end(self, ids: AsyncGenerator[str]) -> int:
        ended = 0
        async for batch in batches(ids):
            for id in await end_sessions(self._broker, batch):
                ended += 1
                log.info("session ended", session_id=id, reason="its person signed out at the provider")
        return ended
