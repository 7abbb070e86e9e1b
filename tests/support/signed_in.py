"""Signed-in users in a real store: records as the authenticate service writes them, and their cookies."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.end_sessions import user_key
from databroker.records import DIRECTORY_USER, SESSION, SESSION_INDEX, USER, DirectoryUser, SessionRecord, UserRecord
from foundation.crypto.session_cookie import SessionCookies
from tests.support.cookies import signed_in


@dataclass
class SignedIn:
    """A signed-in user. `cookie(host_port)` is the Cookie header that the browser sends there."""

    session: SessionRecord
    options: Options

    def cookie(self, host_port: str) -> str:
        session = self.session
        return signed_in(SessionCookies(self.options), session.id, host_port, issued=session.issued_at, expires=session.expires_at)


async def put_session(broker: BrokerClient, id: str, data: Mapping[str, Any]) -> None:
    """Write and index a session as a sign-in does."""
    await broker.put(SESSION_INDEX, f"{user_key(str(data['user_id']))}/{id}", {"subject": ""})
    await broker.put(SESSION, id, data, expires=data.get("expires_at"))


async def sign_in(broker: BrokerClient, options: Options, name: str = "ann", *, groups: tuple[str, ...] = (), **claims: Any) -> SignedIn:
    now = time.time()
    user_id = f"oidc/{name}"
    issuer = options.first_provider.issuer
    email = claims.pop("email", f"{name}@example.com")
    session = SessionRecord(f"session-of-{name}", user_id, name, "oidc", now, now + 3600, {"email": email, **claims}, issuer=issuer)
    await broker.put(USER, user_id, UserRecord(user_id, email, claims.get("email_verified"), name.title(), issuer=issuer).to_data())
    await put_session(broker, session.id, session.to_data())
    if groups:
        await broker.put(DIRECTORY_USER, user_id, DirectoryUser(user_id, email, name, groups).to_data())
    return SignedIn(session, options)
