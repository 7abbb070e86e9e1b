"""Token service: authorization requests, codes and tokens of agents, in the records of their sessions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog
from authlib.oauth2.rfc6749 import OAuth2Error
from authlib.oauth2.rfc6749.util import extract_basic_authorization

from authenticate.oauth.account_tokens import AccountAuthorizationServer, AccountTokens, names_account_token
from authenticate.oauth.authorization_server import (
    CODE_SECONDS,
    REVOCATION,
    OAuthRequest,
    OAuthResponse,
    TemporarilyUnavailableError,
    token_session_id,
)
from authenticate.oauth.client_assertions import ClientAssertions, named_client_id
from authenticate.oauth.client_registry import OAuthClients
from authenticate.oauth.device_authorizations import DeviceAuthorizations, StoredDevice, TooManyDevices
from authenticate.oauth.device_grant import DEVICE_ENDPOINT, DeviceAuthorizationServer
from authenticate.oauth.oauth_client import CLIENT_CREDENTIALS, DEVICE_CODE, REFRESH_TOKEN, OAuthClient
from authenticate.oauth.oauth_records import DeviceAuthorization
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authorize.protected_resources import ProtectedResource, ProtectedResources
from authorize.route_settings import reserved_hosts
from config.options import Options
from databroker.agent_records import AgentAuthorization, AuthorizationCode
from databroker.broker_client import BrokerClient
from databroker.end_sessions import end_sessions
from databroker.records import SESSION, Record, ServiceAccountRecord, SessionRecord
from databroker.service_account_store import ServiceAccountToken
from databroker.session_reader import SessionReader
from databroker.store.base import VersionConflict
from foundation.crypto.agent_token import AgentTokenKind, RefreshTokens, new_token
from foundation.crypto.device_codes import NewDeviceCodes
from foundation.errors import BrokerError

MAX_USER_AGENT = 256
MAX_ATTEMPTS = 5  # writes of other processes at the same moment

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """Validated authorization request: its redirect URI is registered for the client."""

    client: OAuthClient
    resource: ProtectedResource
    redirect_uri: str
    scopes: tuple[str, ...]


class InvalidAuthorizationRequest(Exception):
    """Invalid authorization request.

    `location` is where the error goes, "" if the redirect URI is not verified: then the user gets a page with `reason`.
    """

    def __init__(self, error: str, reason: str, location: str = ""):
        self.error, self.reason, self.location = error, reason, location
        super().__init__(f"{error}: {reason}")


@dataclass(frozen=True, slots=True)
class TokenResult:
    """Response to a token or revocation request, with the session that it ended, or the service account's token that it concerns."""

    response: OAuthResponse
    ended: SessionRecord | None = None
    account_token: ServiceAccountToken | None = None


class TokenService:
    """Authorization server of one configuration.  Methods raise BrokerError."""

    def __init__(self, options: Options, broker: BrokerClient, clock: Callable[[], float], connections: UpstreamConnections):
        self.issuer = options.authenticate_service_url.origin
        self.resources = ProtectedResources(options.policy, reserved_hosts(options))
        self.clients = OAuthClients(options, broker, clock)
        self.devices = DeviceAuthorizations(options, broker, clock)
        self._account_tokens = AccountTokens(broker, clock)
        self._assertions = ClientAssertions(self.issuer, self.clients.documents, broker, clock)
        self._connections = connections
        self._broker = broker
        self._clock = clock
        self._reader = SessionReader(options)
        self._refresh_tokens = RefreshTokens(options)
        self._lifetime = (options.agent_session_expire or options.cookie_expire).total_seconds()

    async def close(self) -> None:
        await self.clients.documents.close()

    def validate(self, params: Mapping[str, str], client: OAuthClient | None) -> AuthorizationRequest:
        """Return a valid authorization request.  Raises InvalidAuthorizationRequest."""
        server, request = self._server(client), _authorization_request(params)
        try:
            grant = server.get_consent_grant(request)
        except OAuth2Error as error:
            location = server.error_response(request, error).location
            raise InvalidAuthorizationRequest(str(error.error), str(error.get_error_description()), location) from error
        scopes = tuple(str(grant.request.scope or "").split())
        return AuthorizationRequest(grant.request.client, server.find_resource(request), grant.redirect_uri, scopes)

    def deny(self, params: Mapping[str, str], client: OAuthClient) -> str:
        """Return the Location that redirects to the client with the error `access_denied`."""
        return self._authorization_location(params, client, user=None, code="")

    def grant(self, params: Mapping[str, str], client: OAuthClient, session: SessionRecord, code: str) -> str:
        """Return the Location that redirects to the client with the code of its session."""
        return self._authorization_location(params, client, user=session, code=code)

    def _authorization_location(self, params: Mapping[str, str], client: OAuthClient, user: SessionRecord | None, code: str) -> str:
        server, request = self._server(client, code=code), _authorization_request(params)
        grant = server.get_authorization_grant(request)
        response: OAuthResponse = server.create_authorization_response(request, grant_user=user, grant=grant)
        if not response.location:
            raise RuntimeError("an authorization response needs a verified redirect URI")
        return response.location

    def new_authorization(
        self, requested: AuthorizationRequest, params: Mapping[str, str], session_id: str
    ) -> tuple[str, AgentAuthorization]:
        """Return a new code, and the authorization that the record of its session gets."""
        now, code = self._clock(), new_token(AgentTokenKind.CODE, session_id)
        return code.token, AgentAuthorization(
            client_id=requested.client.client_id,
            client_name=requested.client.name,
            resource=requested.resource.uri,
            scopes=requested.scopes,
            authorized_at=now,
            lifetime_seconds=self._lifetime_for(requested.client, requested.resource),
            code=AuthorizationCode(code.hash, now + CODE_SECONDS, requested.redirect_uri, params["code_challenge"]),
            uses_key=requested.client.keys is not None,
        )

    # enforcement-point: Authorization server: Lifetime of agent sessions
    def _lifetime_for(self, client: OAuthClient, resource: ProtectedResource) -> float:
        """Return the seconds that a session lasts: the shorter value of client and route, else the setting."""
        return min(filter(None, (client.session_seconds, resource.session_seconds)), default=self._lifetime)

    def new_device_session(self, device: DeviceAuthorization, client: OAuthClient, resource: ProtectedResource) -> AgentAuthorization:
        """Return the authorization of the session that the approval of a device creates.  Its code is the device code."""
        return AgentAuthorization(
            client_id=device.client_id,
            client_name=client.name,
            resource=device.resource,
            scopes=device.scopes,
            authorized_at=self._clock(),
            lifetime_seconds=self._lifetime_for(client, resource),
            code=AuthorizationCode(device.device_code_hash, device.expires_at, "", ""),
            uses_key=client.keys is not None,
        )

    async def start_device(self, params: Mapping[str, str], headers: Mapping[str, str], client_address: str) -> OAuthResponse:
        """Answer a device authorization request (RFC 8628 3.1)."""
        codes = self.devices.codes.new()
        client = self.clients.find_for_session(_client_id(params, headers), None)
        client = await self._assertions.authenticate(client, params) if client is not None else None
        server = self._server(client, new_codes=codes, client_address=client_address)
        response: OAuthResponse = server.create_endpoint_response(DEVICE_ENDPOINT, OAuthRequest("POST", params, headers))
        if server.started is not None:
            try:
                await self.devices.create(codes, server.started)
            except TooManyDevices as error:
                raise TemporarilyUnavailableError("Too many devices are waiting. Try again in a few minutes.") from error
            facts = {"client_id": server.started.client_id, "resource": server.started.resource}
            log.info("device authorization requested", **facts, client_address=client_address)
        return response

    async def token(self, params: Mapping[str, str], headers: Mapping[str, str], client_address: str) -> TokenResult:
        """Respond to a token request.  Raises OAuth2Error."""
        if params.get("grant_type") == CLIENT_CREDENTIALS:
            return await self._issue_to_account(OAuthRequest("POST", params, headers), client_address)
        return await self._run(params, headers, client_address, is_revocation=False)

    async def revoke(self, params: Mapping[str, str], headers: Mapping[str, str], client_address: str) -> TokenResult:
        """Respond to a revocation request (RFC 7009).  It ends the session: access and refresh tokens are one authorization.

        Raises OAuth2Error.
        """
        if names_account_token(params):
            token = await self._account_tokens.revoke(OAuthRequest("POST", params, headers))
            if token is not None:
                facts = {"service_account": token.account, "resource": token.resource}
                log.info("access token revoked", **facts, client_address=client_address)
            return TokenResult(OAuthResponse(200, {}, []), account_token=token)
        return await self._run(params, headers, client_address, is_revocation=True)

    async def _issue_to_account(self, request: OAuthRequest, client_address: str) -> TokenResult:
        def server_for(client: OAuthClient | None, account: ServiceAccountRecord | None, secret: str) -> AccountAuthorizationServer:
            settings = (self.issuer, self.resources, self._refresh_tokens, self._clock(), client)
            return AccountAuthorizationServer(*settings, account=account, secret=secret)

        response, token = await self._account_tokens.issue(server_for, request)
        if token is not None:
            facts = {"service_account": token.account, "resource": token.resource, "scopes": list(token.scopes)}
            log.info("access token issued", **facts, client_address=client_address)
        return TokenResult(response, account_token=token)

    async def _run(self, params: Mapping[str, str], headers: Mapping[str, str], client_address: str, *, is_revocation: bool) -> TokenResult:
        request = OAuthRequest("POST", params, headers)
        client_id, is_device = _client_id(params, headers), params.get("grant_type") == DEVICE_CODE and not is_revocation
        is_proven = False  # by an assertion, which is used once
        for _ in range(MAX_ATTEMPTS):
            device = await self.devices.find_by_device_code(params.get("device_code", "")) if is_device else None
            session_id = device.authorization.session_id if device is not None else token_session_id(params)
            record = await self._broker.get(SESSION, session_id) if session_id else None
            session = self._live_agent_session(record)
            client = self.clients.find_for_session(client_id, session)
            if client is not None:
                client = replace(client, is_proven=True) if is_proven else await self._assertions.authenticate(client, params)
                is_proven = client.is_proven
            if not is_revocation and session is not None and await self._must_reauthorize(session, params):
                session = None
            server = self._server(client, session, device=device)
            response = server.create_endpoint_response(REVOCATION, request) if is_revocation else server.create_token_response(request)
            if session is not None and (server.reused or server.is_revoked):
                return await self._end(session, response, server.reused)
            if device is not None and server.polled is not None and not await self.devices.save(device, server.polled):
                continue
            if server.issued is None or record is None or session is None:
                return TokenResult(response)
            renewed = replace(
                session,
                agent=server.issued,
                expires_at=server.issued.expires_at,
                client_address=client_address,
                user_agent=headers.get("User-Agent", "")[:MAX_USER_AGENT],
            )
            if await self._save(record, renewed):
                log.info("agent tokens issued", client_id=client_id, session_id=session.id, grant_type=params.get("grant_type", ""))
                return TokenResult(response)
        raise BrokerError("the session of an agent was changed concurrently too often")

    async def _must_reauthorize(self, session: SessionRecord, params: Mapping[str, str]) -> bool:
        """Return whether a refresh must fail, so that the client authorizes again, which leads its user to connect an account."""
        return params.get("grant_type") == REFRESH_TOKEN and await self._connections.is_missing(session)

    def _live_agent_session(self, record: Record | None) -> SessionRecord | None:
        session = self._reader.read_valid(record) if record is not None else None
        return session if session is not None and session.agent is not None and session.expires_at > self._clock() else None

    async def _save(self, record: Record, session: SessionRecord) -> bool:
        """Write the session over the version that the decision was made on; False if another process has changed it since."""
        data = {**record.data, **session.to_data()}  # the fields of later releases are retained
        try:
            await self._broker.put(SESSION, record.id, data, expires=session.expires_at, only_if_version=record.version)
        except VersionConflict:
            return False
        return True

    # enforcement-point: Authorization server: Reuse of codes and refresh tokens
    async def _end(self, session: SessionRecord, response: OAuthResponse, reused: str) -> TokenResult:
        """End the session of a revoked or reused credential, with all tokens that were issued from it."""
        await end_sessions(self._broker, [session.id])
        client_id = session.agent.client_id if session.agent is not None else ""
        if reused:
            log.warning("agent credential reused", credential=reused, client_id=client_id, session_id=session.id, user_id=session.user_id)
        else:
            log.info("agent revoked", client_id=client_id, session_id=session.id, user_id=session.user_id)
        return TokenResult(response, session)

    def _server(
        self,
        client: OAuthClient | None,
        session: SessionRecord | None = None,
        *,
        code: str = "",
        device: StoredDevice | None = None,
        new_codes: NewDeviceCodes | None = None,
        client_address: str = "",
    ) -> DeviceAuthorizationServer:
        return DeviceAuthorizationServer(
            self.issuer,
            self.resources,
            self._refresh_tokens,
            self._clock(),
            client,
            session,
            code,
            device=device.authorization if device is not None else None,
            new_codes=new_codes,
            client_address=client_address,
        )


def _client_id(params: Mapping[str, str], headers: Mapping[str, str]) -> str:
    return params.get("client_id") or extract_basic_authorization(headers)[0] or named_client_id(params)


def _authorization_request(params: Mapping[str, str]) -> OAuthRequest:
    # Authlib repeats the response type in a description, where not every character is allowed.
    response_type = params.get("response_type", "")
    is_plain = response_type.isascii() and response_type.replace("_", "").replace(" ", "").isalnum()
    return OAuthRequest("GET", {**params, "response_type": response_type if is_plain else "unknown"})
