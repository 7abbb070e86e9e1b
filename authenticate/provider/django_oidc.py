"""Authorization code flow on mozilla-django-oidc 5.0.2: subclasses of its two views and its backend.

The library checks neither audience nor issuer, identifies users by email, stores its state in Django sessions (one `next`
for all tabs) and calls the provider without a timeout. Its structure, settings and code challenge are used; each step that
lacks a check is overridden. No other module imports the library.
"""

import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import generate_code_challenge
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.issuer import matches_issuer
from authenticate.provider.provider_client import ProviderClient, with_query
from authenticate.provider.sign_in_result import ProviderMismatch, SignInResult
from authenticate.provider.tokens.token_response import InvalidGrant, Tokens
from config.options import Options
from databroker.records import UserRecord
from foundation.errors import BadRequest, ProviderError
from foundation.web.message import Message

MAX_LOGGED_SCOPE = 500  # characters of the granted scopes in a log line

log = structlog.get_logger(__name__)


class ScopesNotGranted(ProviderError):
    """Requested scopes were not granted: the user declined them, or removed them from the request in the browser."""

    def __init__(self, missing: tuple[str, ...], requested: str, granted: str):
        self.missing = " ".join(missing)
        super().__init__(
            f"the provider granted fewer scopes than requested: missing {self.missing} (requested: {requested}; "
            f"granted: {granted[:MAX_LOGGED_SCOPE]}). If it never grants them, remove them from idp_scopes"
        )


class InvalidCode(BadRequest):
    """The provider rejects the authorization code: already used, expired, or issued to another client."""


def library_settings(
    options: Options, provider_client: ProviderClient, discovery: DiscoveryDocument, extra_params: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Return the options and the provider's metadata as settings of the library. `extra_params` belong to this request."""
    callback = options.authenticate_service_url.origin + options.authenticate_callback_path
    return {
        "OIDC_OP_AUTHORIZATION_ENDPOINT": discovery.authorization_endpoint,
        "OIDC_OP_TOKEN_ENDPOINT": discovery.token_endpoint,
        "OIDC_OP_USER_ENDPOINT": discovery.userinfo_endpoint,
        "OIDC_OP_JWKS_ENDPOINT": discovery.jwks_uri,
        "OIDC_RP_CLIENT_ID": provider_client.provider.client_id,
        "OIDC_RP_CLIENT_SECRET": provider_client.provider.client_secret,
        # Only so that the library's constructor requires keys; id_token.py checks the complete list.
        "OIDC_RP_SIGN_ALGO": "RS256",
        "OIDC_RP_SCOPES": " ".join(provider_client.provider.requested_scopes(discovery)),
        "OIDC_AUTH_REQUEST_EXTRA_PARAMS": {**provider_client.provider.request_params, **(extra_params or {})},
        # Absolute and from the configuration, because the library builds it from the Host header.
        "OIDC_AUTHENTICATION_CALLBACK_URL": callback,
    }


class _InstanceSettings:
    """Settings per instance instead of Django's, through the library's hook `get_settings`."""

    oidc_settings: Mapping[str, Any] = {}

    def get_settings(self, name: str, *default: Any) -> Any:
        return self.oidc_settings.get(name, *default) if default else self.oidc_settings[name]


class GateRequestView(_InstanceSettings, OIDCAuthenticationRequestView):
    """Authorization request. State, nonce and verifier are unique to this attempt and stored in its cookie."""

    begin_attempt: Any = None  # (claims) -> (state, Set-Cookie values)
    push_request: Any = None  # async (params) -> params for the browser; None if the provider does not support PAR

    async def get(self, request: HttpRequest) -> HttpResponse:
        nonce, code_verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        state, cookies = self.begin_attempt({"nonce": nonce, "verifier": code_verifier})
        params = {
            **self.get_extra_params(request),
            # These come last, so that idp_request_params can add parameters but not replace them.
            "response_type": "code",
            "scope": self.get_settings("OIDC_RP_SCOPES"),
            "client_id": self.OIDC_RP_CLIENT_ID,
            "redirect_uri": self.get_settings("OIDC_AUTHENTICATION_CALLBACK_URL"),
            "state": state,
            "nonce": nonce,
            "code_challenge": generate_code_challenge(code_verifier, "S256"),
            "code_challenge_method": "S256",
        }
        if self.push_request is not None:
            params = await self.push_request(params)
        response = HttpResponseRedirect(with_query(self.OIDC_OP_AUTH_ENDPOINT, params))
        for cookie in cookies:
            response.cookies.load(cookie)
        return response


class GateCallbackView(_InstanceSettings, OIDCAuthenticationCallbackView):
    """Validation of the authorization response; the subclass renders the pages.

    | the callback has                    | result              |
    |-------------------------------------|---------------------|
    | a duplicate parameter               | BadRequest          |
    | no attempt of this browser          | login_stale         |
    | an attempt at a removed provider    | ProviderMismatch    |
    | another issuer (RFC 9207)           | BadRequest          |
    | a used attempt                      | login_stale         |
    | an error                            | login_failure       |
    | a used code                         | BadRequest          |
    | a valid code                        | login_success       |
    """

    service: Any = None  # the AuthenticateService

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = parse_unique_params(request.META.get("QUERY_STRING", ""))
        state = params.get("state", "")
        self.attempt = self.find_attempt(state)
        if not self.attempt:
            return await self.login_stale()
        client = self.client_for_attempt()
        check_response_issuer(params, client.provider.issuer)
        if not await self.service.replay_guard.consume_state(state):
            return await self.login_stale()
        if "error" in params:
            return self.login_failure(params["error"], params.get("error_description", ""))
        if not params.get("code"):
            raise BadRequest(Message("the identity provider sent no authorization code"))
        if not await self.service.replay_guard.consume_code(params["code"]):
            log.warning("authorization code replay rejected", provider=client.provider.id)
            raise BadRequest(Message("the response was issued by a different identity provider"))
        discovery = await client.discovery()
        if discovery.sends_iss and "iss" not in params:
            raise BadRequest(Message("the response does not name its issuer"))
        backend = GateBackend(client, discovery, self.service.clock, library_settings(self.service.options, client, discovery))
        self.sign_in_result = await backend.authenticate(
            request, code=params["code"], nonce=self.attempt["nonce"], code_verifier=self.attempt["verifier"]
        )
        return await self.login_success()

    def client_for_attempt(self) -> ProviderClient:
        """Return the client of the attempt's provider, the only one that may receive its code.

        Raises ProviderMismatch if the provider is no longer configured, or its id now belongs to another issuer.
        """
        client: ProviderClient | None = self.service.providers.get(self.attempt.get("provider", ""))
        if client is not None and self.attempt.get("issuer") == client.provider.issuer:
            return client
        raise ProviderMismatch(self.attempt.get("issuer"))

    def find_attempt(self, state: str) -> dict[str, Any]:
        """Return this browser's attempt with this state, {} if there is none."""
        raise NotImplementedError

    async def login_stale(self) -> HttpResponse:
        raise NotImplementedError


class GateBackend(_InstanceSettings, OIDCAuthenticationBackend):
    """Code exchange. It is not one of Django's authentication backends, because users are in the data broker, not in Django's tables."""

    def __init__(self, client: ProviderClient, discovery: DiscoveryDocument, clock: Any, oidc_settings: Mapping[str, Any]):
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self.oidc_settings = oidc_settings
        self._userinfo_claims: tuple[str, ...] = ()
        super().__init__()

    async def authenticate(self, request: HttpRequest, *, code: str, nonce: str, code_verifier: str) -> SignInResult:
        """Exchange the code. Raises InvalidCode, ScopesNotGranted, or ProviderError if the response is invalid."""
        tokens = await self.get_token(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.get_settings("OIDC_AUTHENTICATION_CALLBACK_URL"),
                "code_verifier": code_verifier,
            }
        )
        if tokens.scope is not None:
            self._check_scope(tokens.scope)
        payload: dict[str, Any] = {}
        if self._client.provider.issues_id_token:
            payload = await self.verify_token(tokens.id_token, nonce=nonce, access_token=tokens.access_token)
        user = await self.get_or_create_user(tokens.access_token, tokens.id_token, payload)
        provider = self._client.provider
        return SignInResult(user, provider.id, provider.subject(user.claims), tokens, self._userinfo_claims)

    def _check_scope(self, granted: str) -> None:
        """Raise ScopesNotGranted if rules would lack claims about the user.

        Claims of other missing scopes are unknown, which satisfies no rule.
        """
        requested = self.get_settings("OIDC_RP_SCOPES")
        missing = self._client.provider.missing_scopes(requested.split(), granted)
        if missing.required:
            raise ScopesNotGranted(missing.required, requested, granted)
        if missing.other:
            log.warning("provider granted fewer scopes", missing=list(missing.other), granted=granted[:MAX_LOGGED_SCOPE])

    async def get_token(self, payload: dict[str, str]) -> Tokens:
        try:
            return await self._client.request_tokens(payload, self._discovery, needs_id_token=self._client.provider.issues_id_token)
        except InvalidGrant as error:
            raise InvalidCode(Message("the identity provider no longer accepts this sign-in")) from error

    async def verify_token(self, token: str, *, nonce: str, access_token: str) -> dict[str, Any]:
        return await self._client.verify_id_token(token, self._discovery, nonce=nonce, access_token=access_token)

    async def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the claims of the ID token, overlaid with those of the userinfo endpoint."""
        claims, self._userinfo_claims = await self._client.fetch_claims(payload, access_token, self._discovery)
        return claims

    async def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> UserRecord:
        """Return the user, identified by `sub`.

        The library chose the name, and would look up the email among Django's users.  This method creates and writes nothing.
        """
        return self._client.provider.user(await self.get_userinfo(access_token, id_token, payload), self._clock())


def parse_unique_params(query: str) -> dict[str, str]:
    """Return the query's parameters. Raises BadRequest for duplicates, because they are ambiguous."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError as error:
        raise BadRequest(Message("the response of the identity provider can't be read")) from error
    params = dict(pairs)
    if len(params) != len(pairs):
        raise BadRequest(Message("the response of the identity provider repeats a parameter"))
    return params


# enforcement-point: Sign-in and sign-out: Provider of an authorization response
def check_response_issuer(params: Mapping[str, str], issuer: str) -> None:
    """Check `iss` (RFC 9207): a response of another issuer must not be redeemed at this one (mix-up). Raises BadRequest."""
    if "iss" in params and not matches_issuer(issuer, params["iss"]):
        raise BadRequest(Message("the response was issued by a different identity provider"))
