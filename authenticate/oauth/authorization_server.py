"""Authorization server on Authlib: the only module that imports its state machine (RFC 6749, 7009, 7636, 8707, 9207).

Authlib's hooks are synchronous, and records are in the data broker. So a server is made for one request with what was read before it
(`client`, `session`), and what it decides (`issued`, `reused`) is written after it by a compare-and-swap (`token_service.py`): the
decision is a function of values, and nothing is half-issued.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    InvalidGrantError,
    InvalidRequestError,
    OAuth2Error,
    OAuth2Payload,
    OAuth2Request,
    grants,
)
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9207 import IssuerParameter

from authenticate.oauth.oauth_client import NO_AUTHENTICATION, PRIVATE_KEY_JWT, SECRET_METHODS, OAuthClient
from authorize.protected_resources import ProtectedResource, ProtectedResources
from databroker.agent_records import MAX_ACCESS_TOKENS, AccessToken, AgentAuthorization
from databroker.records import SessionRecord
from foundation.crypto.agent_token import AgentTokenKind, RefreshTokens, matches_hash, new_token, parse_session_id

CODE_SECONDS = 60.0
ACCESS_TOKEN_SECONDS = 3600.0
REVOCATION = RevocationEndpoint.ENDPOINT_NAME
AUTHENTICATION_METHODS = [NO_AUTHENTICATION, *SECRET_METHODS, PRIVATE_KEY_JWT]


class InvalidTargetError(OAuth2Error):
    """RFC 8707 2."""

    error = "invalid_target"


class TemporarilyUnavailableError(OAuth2Error):
    error = "temporarily_unavailable"
    description = "The authorization server is unavailable. Try again in a moment."
    status_code = 503


class _Payload(OAuth2Payload):
    def __init__(self, params: Mapping[str, str]):
        self._params = dict(params)

    @property
    def data(self) -> dict[str, str]:
        return self._params

    @property
    def datalist(self) -> dict[str, list[str]]:
        return {name: [value] for name, value in self._params.items()}


class OAuthRequest(OAuth2Request):
    """Request with unique parameters. Its URI is not used, because TLS ends at the listener."""

    def __init__(self, method: str, params: Mapping[str, str], headers: Mapping[str, str] | None = None):
        super().__init__(method, "https://authorization-server.invalid", headers=dict(headers or {}))
        self.payload = _Payload(params)

    @property
    def args(self) -> dict[str, str]:
        return dict(self.payload.data)

    @property
    def form(self) -> dict[str, str]:
        return dict(self.payload.data)


@dataclass(slots=True)
class OAuthResponse:
    """Response as Authlib builds it; `body` is JSON."""

    status: int
    body: dict[str, Any]
    headers: list[tuple[str, str]]
    location: str = ""


class _Issuer(IssuerParameter):
    def __init__(self, issuer: str):
        self._issuer = issuer

    def get_issuer(self) -> str:
        return self._issuer


class GateAuthorizationServer(AuthorizationServer):
    """Server for one request.

    `session` is that of the code or token in the request, and `code` the token of a code to issue. Results: `issued` is the
    authorization to write, `is_revoked` whether the session must end, `reused` the kind of a credential that was used twice.
    """

    def __init__(
        self,
        issuer: str,
        resources: ProtectedResources,
        refresh_tokens: RefreshTokens,
        now: float,
        client: OAuthClient | None,
        session: SessionRecord | None = None,
        code: str = "",
    ):
        super().__init__()
        self.issuer = issuer
        self.resources, self.refresh_tokens, self.now = resources, refresh_tokens, now
        self.client, self.session, self.code = client, session, code
        self.issued: AgentAuthorization | None = None
        self.reused = ""
        self.is_revoked = False
        self.register_grant(_CodeGrant, [_S256Challenge(required=True)])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_Revocation)
        # client_assertions.py has verified the assertion.
        self.register_client_auth_method(
            PRIVATE_KEY_JWT, lambda *_: self.client if self.client is not None and self.client.is_proven else None
        )
        self._issuer = _Issuer(issuer)
        self.register_extension(self._issuer)
        self.register_token_generator("default", self._new_tokens)

    @property
    def agent(self) -> AgentAuthorization | None:
        return self.session.agent if self.session is not None else None

    def query_client(self, client_id: str) -> OAuthClient | None:
        return self.client if self.client is not None and self.client.client_id == client_id else None

    def create_oauth2_request(self, request: OAuthRequest) -> OAuthRequest:
        return request

    def handle_response(self, status: int, body: Any, headers: Iterable[tuple[str, str]]) -> OAuthResponse:
        pairs = list(headers)
        location = next((value for name, value in pairs if name == "Location"), "")
        return OAuthResponse(status, body if isinstance(body, dict) else {}, pairs, location)

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        pass

    def error_response(self, request: OAuthRequest, error: OAuth2Error) -> OAuthResponse:
        """Return the response to an invalid authorization request: a redirect if its redirect URI is verified."""
        response: OAuthResponse = self.handle_error_response(request, error)
        self._issuer.add_issuer_parameter(self, response)
        return response

    def find_resource(self, request: OAuthRequest) -> ProtectedResource:
        """Return the resource that a request names.  Raises InvalidTargetError."""
        found = self.resource_at(request.payload.data.get("resource", ""))
        if found is None:
            raise InvalidTargetError("The parameter resource must be the URI of a protected resource of this server.")
        return found

    def resource_at(self, uri: str) -> ProtectedResource | None:
        """Return the resource of the client, None if there is none that it may have tokens for."""
        return self.resources.find(uri, of_command_line=self.client is not None and self.client.is_command_line)

    # enforcement-point: Authorization server: Lifetime of access tokens
    def _new_tokens(self, scope: str, include_refresh_token: bool = True, **_: Any) -> dict[str, Any]:
        """Return a new pair of tokens, and set `issued`.  The access token ends with the session at the latest."""
        session, agent = self.session, self.agent
        if session is None or agent is None:
            raise RuntimeError("tokens need a session")
        expires_in = int(min(ACCESS_TOKEN_SECONDS, agent.expires_at - self.now))
        access, refresh = new_token(AgentTokenKind.ACCESS, session.id), self.refresh_tokens.new(session.id)
        live = [token for token in agent.access_tokens if token.expires_at > self.now]
        issued = AccessToken(access.hash, self.now + expires_in, tuple((scope or "").split()))
        self.issued = replace(
            agent,
            access_tokens=(issued, *live)[:MAX_ACCESS_TOKENS],
            refresh_token_hash=refresh.hash,
            refreshed_at=self.now,
        )
        tokens = {"access_token": access.token, "token_type": "Bearer", "expires_in": expires_in, "refresh_token": refresh.token}
        return {**tokens, "scope": scope} if scope else tokens

    def mark_code_redeemed(self) -> None:
        """Mark the code in `issued` as redeemed."""
        if self.issued is not None and self.issued.code is not None:
            self.issued = replace(self.issued, code=replace(self.issued.code, redeemed_at=self.now))

    def save_token(self, token: dict[str, Any], request: OAuthRequest) -> None:
        """Do nothing: token_service.py writes `issued`."""


class _S256Challenge(CodeChallenge):
    """PKCE with S256 only, required of every client (OAuth 2.1 4.1.1)."""

    DEFAULT_CODE_CHALLENGE_METHOD = "S256"
    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]

    # enforcement-point: Authorization server: PKCE
    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        params = grant.request.payload.data
        if not params.get("code_challenge"):
            raise InvalidRequestError("The parameter code_challenge is required.")
        if params.get("code_challenge_method") != "S256":
            raise InvalidRequestError("The parameter code_challenge_method must be S256.")
        super().validate_code_challenge(grant, redirect_uri)

    def get_authorization_code_challenge_method(self, authorization_code: Any) -> str:
        return "S256"


@dataclass(frozen=True, slots=True)
class _IssuedCode:
    """Authorization code in the form that Authlib queries."""

    agent: AgentAuthorization
    redirect_uri: str
    code_challenge: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return " ".join(self.agent.scopes)


@dataclass(frozen=True, slots=True)
class _IssuedToken:
    """Token in the form that Authlib queries."""

    agent: AgentAuthorization

    def check_client(self, client: OAuthClient) -> bool:
        return client.client_id == self.agent.client_id

    def get_scope(self) -> str:
        return " ".join(self.agent.scopes)


class _CodeGrant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTHENTICATION_METHODS

    @staticmethod
    def validate_authorization_redirect_uri(request: OAuthRequest, client: OAuthClient) -> str:
        uri = request.payload.redirect_uri
        if not uri:
            raise InvalidRequestError("The parameter redirect_uri is required.")
        if not client.check_redirect_uri(uri):
            raise InvalidRequestError("The redirect URI is not registered for this client.")
        return str(uri)

    def validate_requested_scope(self) -> None:
        """Check the resource. Authlib calls this before it compares scopes, when the redirect URI is verified."""
        self.server.find_resource(self.request)

    def validate_authorization_request(self) -> str:
        # The scopes that the client may request are those of the resource.
        server = self.server
        resource = server.resource_at(self.request.payload.data.get("resource", ""))
        if server.client is not None and resource is not None:
            server.client = server.client.at(resource)
        return str(super().validate_authorization_request())

    def generate_authorization_code(self) -> str:
        return str(self.server.code)

    def save_authorization_code(self, code: str, request: OAuthRequest) -> None:
        """Do nothing: the session that was created for the code has its hash."""

    # enforcement-point: Authorization server: Authorization codes
    def query_authorization_code(self, code: str, client: OAuthClient) -> _IssuedCode | None:
        agent, now = self.server.agent, self.server.now
        if agent is None or agent.code is None or not matches_hash(code, agent.code.hash) or agent.client_id != client.client_id:
            return None
        if agent.code.redeemed_at:
            self.server.reused = "authorization code"
            return None
        if now >= agent.code.expires_at:
            return None
        if self.request.payload.redirect_uri != agent.code.redirect_uri:
            raise InvalidGrantError("The redirect URI is not that of the authorization request.")
        return _IssuedCode(agent, agent.code.redirect_uri, agent.code.code_challenge)

    def delete_authorization_code(self, authorization_code: _IssuedCode) -> None:
        """Mark the code as redeemed.  It stays in the record, so that its second use is noticed."""
        self.server.mark_code_redeemed()

    def authenticate_user(self, authorization_code: _IssuedCode) -> SessionRecord | None:
        require_same_resource(self.server, self.request, is_required=True)
        return self.server.session


class _RefreshGrant(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTHENTICATION_METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    # enforcement-point: Authorization server: Rotation of refresh tokens
    def authenticate_refresh_token(self, refresh_token: str) -> _IssuedToken | None:
        agent = self.server.agent
        if agent is None or agent.client_id != self.request.client.client_id:
            return None
        if not agent.refresh_token_hash or not matches_hash(refresh_token, agent.refresh_token_hash):
            if self.server.refresh_tokens.is_genuine(refresh_token, self.server.session.id):
                self.server.reused = "refresh token"
            return None
        if int(agent.expires_at - self.server.now) < 1:
            return None
        require_same_resource(self.server, self.request, is_required=False)
        return _IssuedToken(agent)

    def authenticate_user(self, refresh_token: _IssuedToken) -> SessionRecord | None:
        return self.server.session

    def revoke_old_credential(self, refresh_token: _IssuedToken) -> None:
        """Do nothing: the new token has replaced the old one in `issued`."""


class _Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = AUTHENTICATION_METHODS

    def check_params(self, request: OAuthRequest, client: OAuthClient) -> None:
        if "token" not in request.form:
            raise InvalidRequestError("The parameter token is required.")

    def query_token(self, token_string: str, token_type_hint: str | None) -> _IssuedToken | None:
        """Return the token, whatever the hint says (RFC 7009 2.1).  A refresh token that was replaced is one of its session, too."""
        agent = self.server.agent
        if agent is None:
            return None
        is_access = any(matches_hash(token_string, token.hash) for token in agent.access_tokens)
        return _IssuedToken(agent) if is_access or self.server.refresh_tokens.is_genuine(token_string, self.server.session.id) else None

    def revoke_token(self, token: _IssuedToken, request: OAuthRequest) -> None:
        self.server.is_revoked = True


def token_session_id(params: Mapping[str, str]) -> str:
    """Return the session id in the code or token of a request, "" if there is none."""
    named = (
        ("code", AgentTokenKind.CODE),
        ("refresh_token", AgentTokenKind.REFRESH),
        ("token", AgentTokenKind.ACCESS),
        ("token", AgentTokenKind.REFRESH),
    )
    return next(filter(None, (parse_session_id(kind, params.get(name, "")) for name, kind in named)), "")


def require_same_resource(server: GateAuthorizationServer, request: OAuthRequest, *, is_required: bool) -> None:
    """Raise InvalidTargetError unless the request names the resource that the user consented to, which must still be configured."""
    named = request.payload.data.get("resource", "")
    agent = server.agent
    if agent is None or ((named or is_required) and server.find_resource(request).uri != agent.resource):
        raise InvalidTargetError("The resource is not that of the authorization.")
    if server.resource_at(agent.resource) is None:
        raise InvalidTargetError("The resource is no longer configured.")
