"""Client authentication with a signed assertion (`private_key_jwt`: RFC 7523 2.2, OpenID Connect Core 9)."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog
from authlib.oauth2.rfc6749 import InvalidClientError

from authenticate.oauth.authorization_server import TemporarilyUnavailableError
from authenticate.oauth.client_documents import ClientDocumentError, ClientDocuments
from authenticate.oauth.oauth_client import OAuthClient
from authenticate.oauth.server_metadata import TOKEN_PATH
from authenticate.provider.tokens.key_set import ALGORITHMS
from authenticate.provider.tokens.signed_token import LEEWAY, InvalidSignedToken, SigningKeyNotFound, TokenType
from databroker.broker_client import BrokerClient, consume_once
from foundation.errors import ProviderError

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION = TokenType("client assertion", frozenset({"jwt", "client-authentication+jwt"}))
MAX_LIFETIME = 600.0

log = structlog.get_logger(__name__)


class ClientAssertions:
    """Verifier of the assertions of all clients.  Methods raise BrokerError and OAuth2Error."""

    def __init__(self, issuer: str, documents: ClientDocuments, broker: BrokerClient, clock: Callable[[], float]):
        self._audiences = frozenset({issuer, issuer + TOKEN_PATH})
        self._documents = documents
        self._broker = broker
        self._clock = clock

    # enforcement-point: Authorization server: Client assertions
    async def authenticate(self, client: OAuthClient, params: Mapping[str, str]) -> OAuthClient:
        """Return the client as proven by the assertion in a request.  Without one, it is returned as it is."""
        if not {"client_assertion", "client_assertion_type"} & params.keys():
            return client
        try:
            if client.keys is None or params.get("client_assertion_type") != ASSERTION_TYPE:
                raise InvalidSignedToken("the client does not authenticate with an assertion of this type")
            await self._verify(client, params.get("client_assertion", ""))
        except ClientDocumentError as error:
            raise TemporarilyUnavailableError("The keys of this client are unavailable. Try again in a moment.") from error
        except ProviderError as error:
            log.warning("client assertion refused", client_id=client.client_id, reason=str(error))
            raise InvalidClientError("The client assertion is invalid.", status_code=401) from error
        return replace(client, is_proven=True)

    async def _verify(self, client: OAuthClient, assertion: str) -> None:
        """Check the claims, then the signature, and consume the assertion.  Raises ProviderError and ClientDocumentError."""
        header, payload = ASSERTION.split(assertion)
        algorithm, now = ASSERTION.algorithm(header, frozenset(ALGORITHMS)), self._clock()
        if any(ASSERTION.string_claim(payload, name) != client.client_id for name in ("iss", "sub")):
            raise InvalidSignedToken("its issuer or subject is not the client")
        self._check_audience(payload)
        ASSERTION.check_times({"iat": now, **payload}, now)  # `iat` is optional
        expires_at, id = ASSERTION.time_claim(payload, "exp"), ASSERTION.string_claim(payload, "jti")
        if expires_at > now + MAX_LIFETIME + LEEWAY:
            raise InvalidSignedToken(f"it is valid for more than {MAX_LIFETIME:.0f} seconds")
        await self._check_signature(client, assertion, algorithm, header.get("kid"))
        used_id = hashlib.sha256(json.dumps([client.client_id, id]).encode()).hexdigest()
        if not await consume_once(self._broker, f"client assertion/{used_id}", expires_at + LEEWAY):
            raise InvalidSignedToken("it was used before")

    def _check_audience(self, payload: Mapping[str, Any]) -> None:
        """Accept only this server as the audience, so that an assertion for another server is of no use here, and vice versa."""
        audience = payload.get("aud")
        named = [audience] if isinstance(audience, str) else audience
        if not isinstance(named, list) or not named or not all(isinstance(each, str) and each in self._audiences for each in named):
            raise InvalidSignedToken("its audience is not this server alone")

    async def _check_signature(self, client: OAuthClient, assertion: str, algorithm: str, kid: object) -> None:
        """Verify the signature; once more with refetched keys, because the client may have rotated them."""
        keys = await self._documents.keys_for(client)
        try:
            ASSERTION.check_signature(assertion, keys, algorithm, kid)
        except SigningKeyNotFound:
            if (newer := await self._documents.keys_for(client, refetches=True)) == keys:
                raise
            ASSERTION.check_signature(assertion, newer, algorithm, kid)


def named_client_id(params: Mapping[str, str]) -> str:
    """Return the client id in the assertion of a request without `client_id` (RFC 7521 4.2), before it is verified; "" if there is none."""
    try:
        return str(ASSERTION.split(params.get("client_assertion", ""))[1].get("sub", ""))
    except InvalidSignedToken:
        return ""
