"""One provider, spoken to: where its endpoints are, whose tokens are its own, and how we prove to it who we are."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus, urlencode

import structlog

from authenticate import id_token
from authenticate.discovery import Discovery, remembered_discovery
from authenticate.key_set import KeySet
from authenticate.provider_http import Answer, ProviderHttp
from authenticate.providers.base import Provider
from databroker.records import Session
from gateproject.config.options import Options
from gateproject.errors import ProviderError

log = structlog.get_logger(__name__)


class ProviderClient:
    def __init__(self, options: Options, provider: Provider, clock: Callable[[], float], *, http: ProviderHttp | None = None):
        self.provider = provider
        self.client_id = options.idp_client_id
        self._client_secret = options.idp_client_secret
        self._clock = clock
        self.http = http or ProviderHttp(options)
        self._discovery = remembered_discovery(self.http, provider.issuer, clock)
        self._key_set = KeySet(self.http, clock)

    async def discovery(self) -> Discovery:
        return await self._discovery.get()

    async def verified(self, token: str, discovery: Discovery, *, nonce: str, access_token: str) -> dict[str, Any]:
        """The claims of an ID token that passed every check; ProviderError otherwise."""
        expected = id_token.Expected(discovery.issuer, self.client_id, nonce, access_token, discovery.algorithms)
        try:
            return id_token.verify(token, await self._key_set.keys(discovery.jwks_uri), expected, self._clock())
        except id_token.UnknownKey:
            # The provider may have changed its keys just now.
            newer = await self._key_set.newer_keys(discovery.jwks_uri)
            return id_token.verify(token, newer, expected, self._clock())

    async def post_as_client(self, url: str, form: dict[str, str], discovery: Discovery) -> Answer:
        """Send a form with our client id and secret, in the way the provider accepts (OpenID Connect Core 1.0, section 9)."""
        methods = discovery.token_auth_methods
        if "client_secret_basic" in methods or "client_secret_post" not in methods:
            # RFC 6749 2.3.1: both are form-encoded before they become Basic credentials.
            credentials = f"{quote_plus(self.client_id)}:{quote_plus(self._client_secret.reveal())}".encode()
            return await self.http.post(url, form, {"Authorization": "Basic " + b64encode(credentials).decode()})
        return await self.http.post(url, {**form, "client_id": self.client_id, "client_secret": self._client_secret.reveal()})

    async def revoke(self, session: Session) -> None:
        """Ask the provider to forget the session's tokens (RFC 7009); a failure is only logged, the session is over anyway."""
        token, hint = (session.refresh_token, "refresh_token") if session.refresh_token else (session.access_token, "access_token")
        try:
            discovery = await self.discovery()
            if not discovery.revocation_endpoint or not token:
                return
            form = {"token": token, "token_type_hint": hint}
            answer = await self.post_as_client(discovery.revocation_endpoint, form, discovery)
        except ProviderError as error:
            log.warning("tokens not revoked", session_id=session.id, error=str(error))
            return
        if answer.status != 200:
            log.warning("tokens not revoked", session_id=session.id, status=answer.status)

    async def end_session_url(self, session: Session, target: str) -> str:
        """Where the browser ends its session at the provider (OpenID Connect RP-Initiated Logout 1.0), "" where it can't.

        `target` goes along only where the operator or a page of ours asked for one: most providers refuse, instead of signing out,
        where the target is not registered with them.
        """
        try:
            endpoint = (await self.discovery()).end_session_endpoint
        except ProviderError:
            return ""
        if not endpoint:
            return ""
        params = {"id_token_hint": session.id_token, "client_id": self.client_id}
        if target:
            params["post_logout_redirect_uri"] = target
        return with_query(endpoint, params)

    async def close(self) -> None:
        await self.http.close()


def with_query(url: str, params: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
