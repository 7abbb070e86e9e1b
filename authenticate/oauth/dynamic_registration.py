"""Dynamic client registration (RFC 7591): for clients without a metadata document, behind `oauth_dynamic_registration`.

Anyone can register a client, so registrations are bounded in number and per network, and expire unless a user allows the client.
"""

import secrets
from collections.abc import Callable
from typing import Any

import structlog

from authenticate.oauth.client_documents import MAX_NAME_LENGTH
from authenticate.oauth.oauth_client import AUTHORIZATION_CODE, NO_AUTHENTICATION, REFRESH_TOKEN, OAuthClient, Registration
from authenticate.oauth.oauth_records import RegisteredClient
from authenticate.provider import strict_json
from config.options import Options
from config.settings.oauth_settings import MAX_REDIRECT_URIS
from databroker.broker_client import BrokerClient
from databroker.records import OAUTH_CLIENT
from foundation.client_network import RateLimit, client_network
from foundation.oauth_redirect_uris import parse_redirect_uri
from foundation.web.plain_text import is_sanitized

CLIENT_ID_PREFIX = "dynamic-"
MAX_CLIENTS = 1000
MAX_PER_NETWORK, PERIOD = 20, 3600.0  # registrations of one network and process in these seconds
UNUSED_LIFETIME, USED_LIFETIME = 3600.0, 90 * 24 * 3600.0  # seconds

log = structlog.get_logger(__name__)


class RegistrationRefused(Exception):
    """Refused registration; `error` is of RFC 7591 3.2.2."""

    def __init__(self, status: int, error: str, description: str):
        self.status, self.error, self.description = status, error, description
        super().__init__(f"{error}: {description}")


class DynamicRegistration:
    """Clients that registered themselves, in the data broker.  Methods raise BrokerError."""

    def __init__(self, options: Options, broker: BrokerClient, clock: Callable[[], float]):
        self.is_enabled = options.oauth_dynamic_registration
        self._broker = broker
        self._clock = clock
        self._limit = RateLimit(MAX_PER_NETWORK, PERIOD, clock)

    # enforcement-point: Authorization server: Dynamic client registration
    async def register(self, body: bytes, client_address: str) -> dict[str, Any]:
        """Register a public client, whatever its metadata requests, and return its metadata.  Raises RegistrationRefused."""
        client = _parse(body, self._clock())
        if not self._limit.acquire(client_network(client_address)):
            raise RegistrationRefused(429, "temporarily_unavailable", "Too many registrations. Try again in an hour.")
        if len(await self._broker.page(OAUTH_CLIENT, "", MAX_CLIENTS)) >= MAX_CLIENTS:
            log.warning("client registration refused: limit", maximum=MAX_CLIENTS)
            raise RegistrationRefused(503, "temporarily_unavailable", "Too many clients are registered.")
        await self._broker.put(OAUTH_CLIENT, client.client_id, client.to_data(), expires=client.created_at + UNUSED_LIFETIME)
        log.info("client registered", client_id=client.client_id, name=client.name, client_address=client_address)
        return {
            "client_id": client.client_id,
            "client_id_issued_at": int(client.created_at),
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "grant_types": [AUTHORIZATION_CODE, REFRESH_TOKEN],
            "response_types": ["code"],
            "token_endpoint_auth_method": NO_AUTHENTICATION,
        }

    async def find(self, client_id: str) -> OAuthClient | None:
        if not self.owns(client_id):
            return None
        record = await self._broker.get(OAUTH_CLIENT, client_id)
        client = RegisteredClient.parse(record) if record is not None else None
        return OAuthClient(client_id, client.name, client.redirect_uris, Registration.DYNAMIC) if client is not None else None

    def owns(self, client_id: str) -> bool:
        """Return whether this is an id of a client that registered itself, and registration is enabled."""
        return self.is_enabled and client_id.startswith(CLIENT_ID_PREFIX)

    async def renew(self, client: OAuthClient) -> None:
        """Retain a client that a user has allowed."""
        if client.registration is Registration.DYNAMIC and (record := await self._broker.get(OAUTH_CLIENT, client.client_id)) is not None:
            await self._broker.put(OAUTH_CLIENT, client.client_id, record.data, expires=self._clock() + USED_LIFETIME)


def _parse(body: bytes, now: float) -> RegisteredClient:
    try:
        metadata = strict_json.parse_object(body)
    except ValueError as error:
        raise RegistrationRefused(400, "invalid_client_metadata", "The body must be a JSON object.") from error
    uris, name = metadata.get("redirect_uris"), metadata.get("client_name", "")
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_REDIRECT_URIS:
        raise RegistrationRefused(400, "invalid_redirect_uri", f"redirect_uris must have from 1 to {MAX_REDIRECT_URIS} entries.")
    parsed = [parse_redirect_uri(uri) if isinstance(uri, str) else None for uri in uris]
    if None in parsed:
        reason = "redirect_uris must be https URLs, or http URLs of 127.0.0.1, [::1] or localhost."
        raise RegistrationRefused(400, "invalid_redirect_uri", reason)
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or not is_sanitized(name):
        reason = f"client_name must be printable text of at most {MAX_NAME_LENGTH} characters."
        raise RegistrationRefused(400, "invalid_client_metadata", reason)
    first = next(uri.host for uri in parsed if uri is not None)
    return RegisteredClient(CLIENT_ID_PREFIX + secrets.token_urlsafe(24), name.strip() or first, tuple(uris), now)
