"""Code flow on mozilla-django-oidc: its two views and its backend, with what 5.0.2 leaves out; the only file that meets the library.

The library checks neither audience nor issuer, finds people by e-mail, keeps its state in Django's sessions (one `next` for all
tabs) and waits for the provider without a limit.  Kept are its structure, its settings and its code challenge; each step with a
check missing is overridden.
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
from authenticate.provider.sign_in_result import AskedAnother, SignedIn
from authenticate.provider.token_response import GrantRefused, Tokens
from config.options import Options
from databroker.records import UserRecord
from foundation.errors import BadRequest, ProviderError
from foundation.web.message import Message

MAX_TOLD = 500  # characters of the provider's words in a log line

log = structlog.get_logger(__name__)


class ScopeReduced(ProviderError):
    """Scopes were asked for and not granted: refused on the provider's page, or taken out of the request on its way through the browser."""

    def __init__(self, missing: tuple[str, ...], asked: str, given: str):
        self.missing = " ".join(missing)
        super().__init__(
            f"the provider granted fewer scopes than requested: missing {self.missing} (requested: {asked}; "
            f"granted: {given[:MAX_TOLD]}). If it never grants them, remove them from idp_scopes"
        )


class CodeRefused(BadRequest):
    """An authorization code that the provider does not accept: used before, too old, or not for us."""


def library_settings(
    options: Options, provider_client: ProviderClient, discovery: DiscoveryDocument, more: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Our Options and the provider's metadata, as the library's settings; `more` are parameters of this one request."""
    callback = options.authenticate_service_url.origin + options.authenticate_callback_path
    return {
        "OIDC_OP_AUTHORIZATION_ENDPOINT": discovery.authorization_endpoint,
        "OIDC_OP_TOKEN_ENDPOINT": discovery.token_endpoint,
        "OIDC_OP_USER_ENDPOINT": discovery.userinfo_endpoint,
        "OIDC_OP_JWKS_ENDPOINT": discovery.jwks_uri,
        "OIDC_RP_CLIENT_ID": provider_client.provider.client_id,
        "OIDC_RP_CLIENT_SECRET": provider_client.provider.client_secret,
        # Only so that the library's constructor wants keys; id_token.py decides by the whole list.
        "OIDC_RP_SIGN_ALGO": "RS256",
        "OIDC_RP_SCOPES": " ".join(provider_client.provider.asked_scopes(discovery)),
        "OIDC_AUTH_REQUEST_EXTRA_PARAMS": {**provider_client.provider.request_params, **(more or {})},
        # Absolute and from the configuration: the library builds it from the Host header.
        "OIDC_AUTHENTICATION_CALLBACK_URL": callback,
    }


class _OurSettings:
    """Settings per instance instead of Django's: the library's own seam for them."""

    oidc_settings: Mapping[str, Any] = {}

    def get_settings(self, name: str, *default: Any) -> Any:
        return self.oidc_settings.get(name, *default) if default else self.oidc_settings[name]


class GateRequestView(_OurSettings, OIDCAuthenticationRequestView):
    """Authorization request.  State, nonce and verifier are this attempt's alone, in a cookie of its own."""

    begin: Any = None  # (claims) -> (state, Set-Cookie values)
    push: Any = None  # (params) -> what the browser carries instead, awaited; None where the provider takes no pushed requests

    async def get(self, request: HttpRequest) -> HttpResponse:
        nonce, code_verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        state, cookies = self.begin({"nonce": nonce, "verifier": code_verifier})
        params = {
            **self.get_extra_params(request),
            # Ours come last: idp_request_params adds, it never replaces.
            "response_type": "code",
            "scope": self.get_settings("OIDC_RP_SCOPES"),
            "client_id": self.OIDC_RP_CLIENT_ID,
            "redirect_uri": self.get_settings("OIDC_AUTHENTICATION_CALLBACK_URL"),
            "state": state,
            "nonce": nonce,
            "code_challenge": generate_code_challenge(code_verifier, "S256"),
            "code_challenge_method": "S256",
        }
        if self.push is not None:
            params = await self.push(params)
        response = HttpResponseRedirect(with_query(self.OIDC_OP_AUTH_ENDPOINT, params))
        for cookie in cookies:
            response.cookies.load(cookie)
        return response


class GateCallbackView(_OurSettings, OIDCAuthenticationCallbackView):
    """Authorization response, judged; the pages are the subclass's.

    | the callback has              | answer                                   |
    |-------------------------------|------------------------------------------|
    | a parameter twice             | BadRequest                               |
    | no attempt of this browser    | login_stale                              |
    | an attempt elsewhere          | AskedAnother                             |
    | another issuer (RFC 9207)     | BadRequest                               |
    | an attempt that was used      | login_stale                              |
    | an error                      | login_failure                            |
    | a code that was used          | BadRequest                               |
    | a code that yields a person   | login_success                            |
    """

    service: Any = None  # the AuthenticateService

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = single_params(request.META.get("QUERY_STRING", ""))
        state = params.get("state", "")
        self.attempt = self.find_attempt(state)
        if not self.attempt:
            return await self.login_stale()
        client = self.client_of_attempt()
        check_sender(params, client.provider.issuer)
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
        if discovery.sends_issuer and "iss" not in params:
            raise BadRequest(Message("the response does not name its issuer"))
        backend = GateBackend(client, discovery, self.service.clock, library_settings(self.service.options, client, discovery))
        self.signed_in = await backend.authenticate(
            request, code=params["code"], nonce=self.attempt["nonce"], code_verifier=self.attempt["verifier"]
        )
        return await self.login_success()

    def client_of_attempt(self) -> ProviderClient:
        """The client of the provider to which this attempt led, and which alone may see its code; AskedAnother where it is not configured
        any more, or another under its name.
        """
        client: ProviderClient | None = self.service.providers.of(self.attempt.get("provider", ""))
        if client is not None and self.attempt.get("issuer") == client.provider.issuer:
            return client
        raise AskedAnother(self.attempt.get("issuer"))

    def find_attempt(self, state: str) -> dict[str, Any]:
        """This browser's attempt with this state, {} where it has none."""
        raise NotImplementedError

    async def login_stale(self) -> HttpResponse:
        raise NotImplementedError


class GateBackend(_OurSettings, OIDCAuthenticationBackend):
    """Code exchange: a code becomes a person.  It is not among Django's backends: people live in the data broker, not in Django's
    tables.
    """

    def __init__(self, client: ProviderClient, discovery: DiscoveryDocument, clock: Any, oidc_settings: Mapping[str, Any]):
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self.oidc_settings = oidc_settings
        self._userinfo_claims: tuple[str, ...] = ()
        super().__init__()

    async def authenticate(self, request: HttpRequest, *, code: str, nonce: str, code_verifier: str) -> SignedIn:
        """The sign-in; CodeRefused, ScopeReduced, ProviderError where the provider's answer can't be believed."""
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
        if self._client.provider.gives_id_token:
            payload = await self.verify_token(tokens.id_token, nonce=nonce, access_token=tokens.access_token)
        user = await self.get_or_create_user(tokens.access_token, tokens.id_token, payload)
        provider = self._client.provider
        return SignedIn(user, provider.id, provider.subject(user.claims), tokens, self._userinfo_claims)

    def _check_scope(self, given: str) -> None:
        """ScopeReduced where rules would see less of the person.  What the rest would have told is unknown, which satisfies no rule."""
        asked = self.get_settings("OIDC_RP_SCOPES")
        missing = self._client.provider.missing_scopes(asked.split(), given)
        if missing.needed:
            raise ScopeReduced(missing.needed, asked, given)
        if missing.other:
            log.warning("provider granted fewer scopes", missing=list(missing.other), given=given[:MAX_TOLD])

    async def get_token(self, payload: dict[str, str]) -> Tokens:
        try:
            return await self._client.tokens(payload, self._discovery, needs_id_token=self._client.provider.gives_id_token)
        except GrantRefused as error:
            raise CodeRefused(Message("the identity provider no longer accepts this sign-in")) from error

    async def verify_token(self, token: str, *, nonce: str, access_token: str) -> dict[str, Any]:
        return await self._client.verified(token, self._discovery, nonce=nonce, access_token=access_token)

    async def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Claims of the ID token and, on top of them, of the userinfo endpoint."""
        claims, self._userinfo_claims = await self._client.claims(payload, access_token, self._discovery)
        return claims

    async def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> UserRecord:
        """The person, known by `sub`; the library would look for the e-mail among Django's users."""
        return self._client.provider.user(await self.get_userinfo(access_token, id_token, payload), self._clock())


def single_params(query: str) -> dict[str, str]:
    """The query's parameters; BadRequest where one that matters occurs twice, because then it has no one meaning."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError as error:
        raise BadRequest(Message("the response of the identity provider can't be read")) from error
    params = dict(pairs)
    if len(params) != len(pairs):
        raise BadRequest(Message("the response of the identity provider repeats a parameter"))
    return params


# enforcement-point: Sign-in and sign-out: Provider of an authorization response
def check_sender(params: Mapping[str, str], issuer: str) -> None:
    """Check of `iss` (RFC 9207): a response of another issuer must not be redeemed at ours (mix-up); BadRequest."""
    if "iss" in params and not matches_issuer(issuer, params["iss"]):
        raise BadRequest(Message("the response was issued by a different identity provider"))
