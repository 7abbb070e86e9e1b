"""Sessions of a fake provider, and their refresh as in one process of gate, over a store that can be shared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from authenticate.provider.provider_client import ProviderClient
from authenticate.session.refresh_worker import RefreshWorker
from authenticate.session.session_refresh import SessionRefresh
from databroker.records import SESSION, USER, SessionRecord, UserRecord
from databroker.store.base import StoreBackend
from tests.support.authenticate_site import Clock
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, FakeIdP
from tests.support.options import make_options


class RefreshEnvironment:
    """`await renewals.signed_in("alice")` creates a session as the callback does; `refresh` and `worker` are under test."""

    def __init__(self, directory: Path, idp: FakeIdP, store: StoreBackend, clock: Clock, **settings: Any):
        self.idp, self.clock = idp, clock
        idp.clock = clock
        options = make_options(directory, idp_provider_url=idp.issuer, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, **settings)
        self.client = ProviderClient(options, options.first_provider, clock)
        self.broker = store
        self.refresh = SessionRefresh(lambda session: self.client, self.broker, clock)
        self.worker = RefreshWorker(self.refresh, self.broker, interval=600.0, clock=clock, tick=0.01)

    async def signed_in(self, sub: str = "alice", id: str = "session", **changes: Any) -> SessionRecord:
        answer = self.idp.signed_in(sub)
        now = self.clock()
        discovery = await self.client.discovery()
        payload = await self.client.verify_id_token(answer["id_token"], discovery, nonce="nonce", access_token=answer["access_token"])
        claims, from_userinfo = await self.client.fetch_claims(payload, answer["access_token"], discovery)
        user = self.client.provider.user(claims, now)
        session = SessionRecord(
            id=id,
            user_id=user.id,
            subject=sub,
            provider="oidc",
            issued_at=now,
            expires_at=now + 50_400,
            claims=claims,
            userinfo_claims=from_userinfo,
            id_token=answer["id_token"],
            access_token=answer["access_token"],
            refresh_token=answer["refresh_token"],
            access_token_expires_at=now + answer["expires_in"],
        )
        session = replace(session, **changes)
        await self.broker.put(USER, user.id, user.to_data())
        await self.broker.put(SESSION, id, session.to_data(), expires=session.expires_at)
        return session

    async def session(self, id: str = "session") -> SessionRecord | None:
        record = await self.broker.get(SESSION, id)
        return SessionRecord.from_record(record) if record is not None else None

    async def user(self, id: str = "oidc/alice") -> UserRecord:
        record = await self.broker.get(USER, id)
        assert record is not None
        return UserRecord.from_record(record)

    async def close(self) -> None:
        await self.client.close()
