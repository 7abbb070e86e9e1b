"""Client of the authorization servers of third-party MCP servers: token and revocation requests."""

from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote

import structlog

from authenticate.provider.address_scope import AddressScope
from authenticate.provider.provider_http import ProviderHttp
from authenticate.provider.tokens import token_response
from authenticate.provider.tokens.token_response import Tokens
from authorize.upstream.upstream_connections import AccountConnection, UpstreamServer
from config.options import Options
from config.routes.route_upstream_oauth import BASIC
from foundation.errors import ProviderError

TIMEOUT = 8.0  # seconds for a complete exchange
MAX_BODY = 256 * 1024
_NOTHING_TO_REVOKE = frozenset({"unsupported_token_type", "invalid_token"})

log = structlog.get_logger(__name__)


class UpstreamTokenClient:
    """Client of all servers of one configuration.  Methods raise ProviderError, and InvalidGrant for a code or token that has ended."""

    def __init__(self, options: Options, clock: Callable[[], float]):
        self._clock = clock
        # The operator configures all URLs.
        scope = AddressScope(None)
        self._http = ProviderHttp(options, scope, timeout=TIMEOUT, max_body=MAX_BODY, peer="the authorization server")
        self.close = self._http.close

    async def exchange_code(self, server: UpstreamServer, code: str, verifier: str, redirect_uri: str) -> Tokens:
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": redirect_uri}
        return await self._tokens(server, form)

    async def refresh(self, server: UpstreamServer, refresh_token: str) -> Tokens:
        return await self._tokens(server, {"grant_type": "refresh_token", "refresh_token": refresh_token})

    async def revoke(self, server: UpstreamServer, connection: AccountConnection) -> None:
        """Revoke the tokens (RFC 7009).  A failure is only logged, because gate has forgotten the tokens.

        The refresh token is first, because it can obtain new access tokens.
        """
        if server.settings.revocation_url is None:
            return
        tokens = ((connection.refresh_token, "refresh_token"), (connection.access_token, "access_token"))
        for token, hint in tokens:
            if not token:
                continue
            try:
                form, headers = self._authenticated(server, {"token": token, "token_type_hint": hint})
                answer = await self._http.post(str(server.settings.revocation_url), form, headers)
                if answer.status != 200 and token_response.error_code(answer) not in _NOTHING_TO_REVOKE:
                    raise ProviderError(f"status {answer.status} for the {hint}: {token_response.error_text(answer)}")
            except ProviderError as error:
                log.warning("upstream token revocation failed", resource=connection.resource, reason=str(error))
                return

    async def _tokens(self, server: UpstreamServer, form: dict[str, str]) -> Tokens:
        form, headers = self._authenticated(server, {**form, "resource": server.uri})
        answer = await self._http.post(str(server.settings.token_url), form, headers)
        return token_response.parse(answer, self._clock(), needs_id_token=False)

    def _authenticated(self, server: UpstreamServer, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form and headers with client authentication (RFC 6749 2.3.1)."""
        settings = server.settings
        form = {**form, "client_id": settings.client_id}
        if settings.client_secret is None:
            return form, {}
        secret = settings.client_secret.reveal()
        if settings.client_auth_method != BASIC:
            return {**form, "client_secret": secret}, {}
        credentials = f"{quote(settings.client_id, safe='')}:{quote(secret, safe='')}".encode()
        return form, {"Authorization": "Basic " + b64encode(credentials).decode()}
