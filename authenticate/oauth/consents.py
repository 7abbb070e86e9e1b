"""Remembered consents: which client may use which resource for a user without another page."""

import hashlib
import json
from collections.abc import Callable

from authenticate.oauth.oauth_client import OAuthClient
from authenticate.oauth.oauth_records import ConsentRecord
from authorize.protected_resources import ProtectedResource
from databroker.broker_client import BrokerClient
from databroker.records import CONSENT, SessionRecord

LIFETIME = 180 * 24 * 3600.0  # seconds


class Consents:
    """Consents in the data broker, for clients of the configuration only.  Methods raise BrokerError."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float]):
        self._broker = broker
        self._clock = clock

    # enforcement-point: Authorization server: Remembered consent
    async def covers(self, session: SessionRecord, client: OAuthClient, resource: ProtectedResource, scopes: tuple[str, ...]) -> bool:
        """Return whether the user has already consented to these scopes of this client at this resource."""
        if not client.remembers_consent:
            return False
        record = await self._broker.get(CONSENT, _record_id(session, client.client_id, resource.uri))
        consent = ConsentRecord.parse(record) if record is not None else None
        return consent is not None and set(scopes) <= set(consent.scopes)

    async def record(self, session: SessionRecord, client: OAuthClient, resource: ProtectedResource, scopes: tuple[str, ...]) -> None:
        if not client.remembers_consent:
            return
        now, issuer = self._clock(), session.effective_issuer
        consent = ConsentRecord(session.user_id, issuer, client.client_id, resource.uri, scopes, now)
        await self._broker.put(CONSENT, _record_id(session, client.client_id, resource.uri), consent.to_data(), expires=now + LIFETIME)

    async def forget(self, session: SessionRecord, client_id: str, resource: str) -> None:
        """Forget the consent of a session's user, so that the client's next authorization asks again."""
        await self._broker.delete(CONSENT, _record_id(session, client_id, resource))


def _record_id(session: SessionRecord, client_id: str, resource: str) -> str:
    names = [session.effective_issuer, session.user_id, client_id, resource]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
