"""Client of the authorization servers of third-party MCP servers: token and revocation requests."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import structlog

from authenticate.page_paths import CONNECTION_CALLBACK_PATH, CONNECTION_CLIENT_PATH
from authenticate.provider.tokens import token_response
from authenticate.provider.tokens.token_response import Tokens
from authenticate.upstream_oauth.server_discovery import ServerDiscovery, ServerEndpoints
from authorize.upstream.account_connections import AccountConnection, UpstreamServer
from config.options import Options
from config.routes.route_upstream_oauth import BASIC
from foundation.errors import ProviderError

_NOTHING_TO_REVOKE = frozenset({"unsupported_token_type", "invalid_token"})

log = structlog.get_logger(__name__)


class UpstreamTokenClient:
    """Client of all servers of one configuration.  Methods raise ProviderError, and InvalidGrant for a code or token that has ended."""

    def __init__(self, options: Options, clock: Callable[[], float]):
        self._clock = clock
        self._origin = options.authenticate_service_url.origin
        self.discovery = ServerDiscovery(options, clock)
        self.close = self.discovery.close

    def redirect_uri(self, server: UpstreamServer) -> str:
        return f"{self._origin}{CONNECTION_CALLBACK_PATH}{server.callback_name}"

    def client_id(self, server: UpstreamServer) -> str:
        """Return gate's client id at the server: the issued id, else the URL of gate's metadata document."""
        return server.settings.client_id or f"{self._origin}{CONNECTION_CLIENT_PATH}{server.callback_name}"

    def client_document(self, server: UpstreamServer) -> dict[str, Any]:
        """Return gate's client ID metadata document.  Each server has a separate document, with one redirect URI."""
        return {
            "client_id": self.client_id(server),
            "client_name": f"gate at {urlsplit(self._origin).netloc}",
            "client_uri": self._origin,
            "redirect_uris": [self.redirect_uri(server)],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    async def exchange_code(self, server: UpstreamServer, endpoints: ServerEndpoints, code: str, verifier: str) -> Tokens:
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": self.redirect_uri(server)}
        return await self._tokens(server, endpoints, form)

    async def refresh(self, server: UpstreamServer, endpoints: ServerEndpoints, refresh_token: str) -> Tokens:
        return await self._tokens(server, endpoints, {"grant_type": "refresh_token", "refresh_token": refresh_token})

    async def revoke(self, server: UpstreamServer, connection: AccountConnection) -> None:
        """Revoke the tokens (RFC 7009).  A failure is only logged, because gate has forgotten the tokens."""
        try:
            endpoints = await self.discovery.find(server)
            if endpoints.revocation_endpoint and endpoints.issuer == connection.authorization_server:
                await self._revoke(server, endpoints, connection)
        except ProviderError as error:
            log.warning("upstream token revocation failed", resource=connection.resource, reason=str(error))

    async def _revoke(self, server: UpstreamServer, endpoints: ServerEndpoints, connection: AccountConnection) -> None:
        # The refresh token is first, because it can obtain new access tokens.
        for token, hint in ((connection.refresh_token, "refresh_token"), (connection.access_token, "access_token")):
            if not token:
                continue
            form, headers = self._authenticated(server, {"token": token, "token_type_hint": hint})
            answer = await self.discovery.http_for(server).post(endpoints.revocation_endpoint, form, headers)
            if answer.status != 200 and token_response.error_code(answer) not in _NOTHING_TO_REVOKE:
                raise ProviderError(f"status {answer.status} for the {hint}: {token_response.error_text(answer)}")

    async def _tokens(self, server: UpstreamServer, endpoints: ServerEndpoints, form: dict[str, str]) -> Tokens:
        form, headers = self._authenticated(server, {**form, "resource": endpoints.resource})
        answer = await self.discovery.http_for(server).post(endpoints.token_endpoint, form, headers)
        return token_response.parse(answer, self._clock(), needs_id_token=False)

    def _authenticated(self, server: UpstreamServer, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form and headers with client authentication (RFC 6749 2.3.1)."""
        settings, client_id = server.settings, self.client_id(server)
        form = {**form, "client_id": client_id}
        if settings.client_secret is None:
            return form, {}
        secret = settings.client_secret.reveal()
        if settings.client_auth_method != BASIC:
            return {**form, "client_secret": secret}, {}
        credentials = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
        return form, {"Authorization": "Basic " + b64encode(credentials).decode()}
