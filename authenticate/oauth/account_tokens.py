"""Access tokens of service accounts: the client credentials grant on Authlib (RFC 6749 4.4), and their revocation (RFC 7009)."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import structlog
from authlib.oauth2.rfc6749 import InvalidClientError, InvalidScopeError, UnauthorizedClientError, grants
from authlib.oauth2.rfc6749.util import extract_basic_authorization

from authenticate.oauth.authorization_server import (
    ACCESS_TOKEN_SECONDS,
    GateAuthorizationServer,
    OAuthRequest,
    OAuthResponse,
    TemporarilyUnavailableError,
)
from authenticate.oauth.oauth_client import CLIENT_CREDENTIALS, SECRET_METHODS, OAuthClient, Registration
from authorize.identity.service_account_loader import find_account
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.broker_client import BrokerClient
from databroker.records import SERVICE_ACCOUNT_TOKEN, ServiceAccountRecord
from databroker.service_account_store import ServiceAccountToken
from foundation.auth_challenges import InvalidToken
from foundation.client_network import RateLimit
from foundation.crypto.agent_token import AgentTokenKind, matches_hash, new_token, parse_session_id
from foundation.crypto.service_account_token import hash_token
from foundation.values import SecretText

MAX_ISSUED, ISSUED_PERIOD = 600, 600.0  # tokens of one account and process in these seconds

log = structlog.get_logger(__name__)


class AccountAuthorizationServer(GateAuthorizationServer):
    """Server for one token request of a service account, which has authenticated.  Result: `token_record` with `token_id` to write."""

    def __init__(self, *args: Any, account: ServiceAccountRecord | None, secret: str):
        super().__init__(*args)
        self.account, self._secret_hash = account, hash_token(secret)
        self.token_id = secrets.token_urlsafe(32)
        self.token_record: ServiceAccountToken | None = None
        self.register_grant(_ClientCredentialsGrant)
        self.register_token_generator(CLIENT_CREDENTIALS, self._new_account_token)

    # enforcement-point: Authorization server: Access tokens of service accounts
    def _new_account_token(self, client: OAuthClient, scope: str, **_: Any) -> dict[str, Any]:
        """Return a new token for the resource of `client`, and set `token_record`.  It ends with the account at the latest."""
        account, resource = self.account, client.resource
        if account is None or resource is None:
            raise RuntimeError("the token needs an account and a resource")
        expires_in = int(min(ACCESS_TOKEN_SECONDS, account.expires_at - self.now))
        token, scopes = new_token(AgentTokenKind.SERVICE_ACCOUNT, self.token_id), tuple(scope.split())
        self.token_record = ServiceAccountToken(
            account.name, self._secret_hash, token.hash, resource.uri, scopes, issued_at=self.now, expires_at=self.now + expires_in
        )
        response = {"access_token": token.token, "token_type": "Bearer", "expires_in": expires_in}
        return {**response, "scope": scope} if scope else response


class _ClientCredentialsGrant(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = list(SECRET_METHODS)

    def validate_requested_scope(self) -> None:
        """Check the resource (RFC 8707 2.2) and the scopes."""
        resource = self.server.find_resource(self.request)
        self.request.client = self.request.client.at(resource)
        if self.request.client.get_allowed_scope(self.request.payload.scope) is None:
            raise InvalidScopeError()

    def create_token_response(self) -> tuple[int, dict[str, Any], Any]:
        client = self.request.client
        token = self.generate_token(scope=client.get_allowed_scope(self.request.payload.scope), include_refresh_token=False)
        return 200, token, self.TOKEN_RESPONSE_HEADER


ServerFactory: TypeAlias = Callable[[OAuthClient | None, ServiceAccountRecord | None, str], AccountAuthorizationServer]


class AccountTokens:
    """Tokens of service accounts in the data broker.  Methods raise BrokerError and OAuth2Error."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float]):
        self._broker = broker
        self._clock = clock
        self._issued = RateLimit(MAX_ISSUED, ISSUED_PERIOD, clock)

    async def issue(self, server_for: ServerFactory, request: OAuthRequest) -> tuple[OAuthResponse, ServiceAccountToken | None]:
        """Answer a token request, and return the token that was issued."""
        account, client, secret = await self._authenticate(request)
        server = server_for(client, account, secret)
        response: OAuthResponse = server.create_token_response(request)
        token = server.token_record
        if token is not None:
            if not self._issued.acquire(token.account):
                log.warning("access token refused: limit", service_account=token.account, resource=token.resource)
                raise TemporarilyUnavailableError("This service account has requested too many tokens. Use each until it expires.")
            await self._broker.put(SERVICE_ACCOUNT_TOKEN, server.token_id, token.to_data(), expires=token.expires_at, only_if_version=0)
        return response, token

    async def revoke(self, request: OAuthRequest) -> ServiceAccountToken | None:
        """Revoke the account's own token, and return it; None if the token is unknown (RFC 7009 2.2)."""
        account, client, _ = await self._authenticate(request)
        if client is None or account is None:
            raise InvalidClientError("The service account cannot be authenticated.", status_code=401)
        value = request.form.get("token", "")
        id = parse_session_id(AgentTokenKind.SERVICE_ACCOUNT, value)
        record = await self._broker.get(SERVICE_ACCOUNT_TOKEN, id)
        token = ServiceAccountToken.parse(record) if record is not None else None
        if token is None or not matches_hash(value, token.token_hash):
            return None
        if token.account != account.name:
            raise UnauthorizedClientError("The token was issued to another service account.")
        await self._broker.delete(SERVICE_ACCOUNT_TOKEN, id)
        return token

    # enforcement-point: Authorization server: Authentication of service accounts
    async def _authenticate(self, request: OAuthRequest) -> tuple[ServiceAccountRecord | None, OAuthClient | None, str]:
        """Return (account, client, secret) of the current record; no client if the id is not that of the secret's account."""
        basic_id, basic_secret = extract_basic_authorization(request.headers)
        client_id, secret = (basic_id, basic_secret) if basic_id else (request.form.get("client_id"), request.form.get("client_secret"))
        account = await find_account(secret or "", self._broker, self._clock())
        if isinstance(account, InvalidToken):
            log.info("service account not authenticated", reason=account.reason)
            return None, None, ""
        if client_id not in (account.name, f"{PROVIDER}/{account.name}"):
            return None, None, ""
        client = OAuthClient(client_id, account.name, (), Registration.SERVICE_ACCOUNT, SecretText(secret or ""))
        return account, client, secret or ""


def names_account_token(params: Mapping[str, str]) -> bool:
    """Return whether a revocation request is about a token of a service account."""
    return bool(parse_session_id(AgentTokenKind.SERVICE_ACCOUNT, params.get("token", "")))
