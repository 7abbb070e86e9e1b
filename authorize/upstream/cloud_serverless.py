"""Identity tokens for a cloud's serverless services, cached until shortly before they expire.

The protocols are the vendor's.  With a service account key, gate exchanges a signed JWT at its token_uri (RFC 7523).  Without one, gate
requests the token from the metadata server.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import jwt
import structlog

from config.fields.cloud_service_account import CloudServiceAccount, service_account
from config.options import Options
from foundation.client_tls import client_context
from foundation.errors import UpstreamCredentialsUnavailable
from foundation.single_flight import SingleFlight

log = structlog.get_logger(__name__)

IDENTITY_PATH = "/computeMetadata/v1/instance/service-accounts/default/identity"
METADATA_FLAVOR = {"Metadata-Flavor": "Google"}
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

ASSERTION_SECONDS = 3600  # lifetime of gate's JWT for the token endpoint, the maximum that the vendor allows
EXPIRY_MARGIN_SECONDS = 60.0
REFRESH_MARGIN_SECONDS = 300.0
FAILURE_SECONDS = 2.0  # no retry in this time after a failure
TIMEOUT = 10.0
MAX_RESPONSE_BYTES = 64 * 1024
UNAVAILABLE = "no identity token available for the upstream"
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class CachedToken:
    token: str = field(repr=False)
    expires: float
    renewed_at: float


# enforcement-point: Upstream requests: Identity tokens for serverless upstreams
class IdentityTokens:
    """Cache of tokens by audience.  Concurrent requests for one audience share a fetch."""

    def __init__(self, options: Options, clock: Callable[[], float] = time.time):
        key_file = options.cloud_serverless_authentication_service_account
        self._account = service_account(key_file) if key_file is not None else None
        self._metadata = options.cloud_serverless_metadata_url.origin + IDENTITY_PATH
        self._authorities = options.certificate_authority
        self._clock = clock
        self._tokens: dict[str, CachedToken] = {}
        self._fetches: SingleFlight[str, str] = SingleFlight("identity token")
        self._failed: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<IdentityTokens {len(self._tokens)} held>"

    async def token_for(self, audience: str) -> str:
        """Return the token of an audience.  Raises UpstreamCredentialsUnavailable, so that no request is sent without one."""
        cached, now = self._tokens.get(audience), self._clock()
        if cached is not None and now < cached.expires - EXPIRY_MARGIN_SECONDS:
            if now >= cached.renewed_at and not self._in_backoff(audience, now):
                self._fetches.start(audience, partial(self._fetch, audience))
            return cached.token
        if self._in_backoff(audience, now):
            raise UpstreamCredentialsUnavailable(UNAVAILABLE)
        return await self._fetches.run(audience, partial(self._fetch, audience))

    def _in_backoff(self, audience: str, now: float) -> bool:
        return now < self._failed.get(audience, 0.0) + FAILURE_SECONDS

    async def _fetch(self, audience: str) -> str:
        try:
            async with asyncio.timeout(TIMEOUT):
                token = await (self._from_metadata(audience) if self._account is None else self._from_account(self._account, audience))
            cached = self._validate(token, audience)
        except (UpstreamCredentialsUnavailable, httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            self._failed[audience] = self._clock()
            log.warning("fetching upstream identity token failed", audience=audience, source=self._source, reason=_reason(error))
            raise UpstreamCredentialsUnavailable(UNAVAILABLE) from error
        self._tokens[audience] = cached
        return cached.token

    @property
    def _source(self) -> str:
        return self._metadata if self._account is None else str(self._account.token_url)

    async def _from_metadata(self, audience: str) -> str:
        response = await self._request("GET", self._metadata, params={"audience": audience, "format": "full"}, headers=METADATA_FLAVOR)
        if response.headers.get("metadata-flavor") != METADATA_FLAVOR["Metadata-Flavor"]:
            raise UpstreamCredentialsUnavailable("the response is not from a metadata server")
        return response.text.strip()

    async def _from_account(self, account: CloudServiceAccount, audience: str) -> str:
        now, url = int(self._clock()), str(account.token_url)
        claims = {"iss": account.email, "sub": account.email, "aud": url, "iat": now, "exp": now + ASSERTION_SECONDS}
        assertion = jwt.encode({**claims, "target_audience": audience}, account.private_key, "RS256", headers={"kid": account.key_id})
        response = await self._request("POST", url, data={"grant_type": JWT_BEARER, "assertion": assertion})
        try:
            token = response.json()["id_token"]
        except (ValueError, LookupError, TypeError) as error:
            raise UpstreamCredentialsUnavailable("the token endpoint's response has no id_token") from error
        return str(token)

    async def _request(self, method: str, url: str, **sent: Any) -> httpx.Response:
        # trust_env is off, because a proxy variable would redirect credentials.  One client per fetch, because fetches are rare.
        verify = client_context(self._authorities) if url.startswith("https:") else False
        async with (
            httpx.AsyncClient(verify=verify, timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client,
            client.stream(method, url, **sent) as response,
        ):
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_RESPONSE_BYTES:
                    raise UpstreamCredentialsUnavailable(f"the response exceeds {MAX_RESPONSE_BYTES} bytes")
        if response.status_code != 200:
            raise UpstreamCredentialsUnavailable(f"the response has status {response.status_code}")
        return httpx.Response(200, headers={"metadata-flavor": response.headers.get("metadata-flavor", "")}, content=bytes(body))

    def _validate(self, token: str, audience: str) -> CachedToken:
        """Check format, audience and expiry of a token.  The upstream verifies its signature."""
        if not _TOKEN.fullmatch(token):
            raise UpstreamCredentialsUnavailable("the response is not a JWT")
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except jwt.PyJWTError as error:
            raise UpstreamCredentialsUnavailable("the response is not a JWT") from error
        if claims.get("aud") != audience:
            raise UpstreamCredentialsUnavailable("the token is for another audience")
        expires, now = claims.get("exp"), self._clock()
        if not isinstance(expires, int | float) or expires - EXPIRY_MARGIN_SECONDS <= now:
            raise UpstreamCredentialsUnavailable("the token has expired")
        return CachedToken(token, expires, expires - min(REFRESH_MARGIN_SECONDS, (expires - now) / 2))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, UpstreamCredentialsUnavailable) else type(error).__name__
