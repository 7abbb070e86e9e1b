"""HTTP client for identity providers: bounded in time and size, without redirects or cookies."""

import asyncio
import re
import time
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote_plus, urlencode

import httpcore
import httpx
import structlog

from authenticate.provider import strict_json
from authenticate.provider.address_scope import AddressRefused, AddressScope, ScopedTransport
from config.options import Options
from foundation.client_tls import client_context
from foundation.connection_errors import classify_failure
from foundation.errors import ProviderError
from foundation.readiness import HealthTracker
from foundation.telemetry.http_metrics import HttpMetrics
from foundation.telemetry.tracing.spans import CLIENT, span

TIMEOUT = 10.0  # seconds for a complete exchange, so that a slow body can't delay a sign-in
MAX_BODY = 1024 * 1024
FORM = "application/x-www-form-urlencoded"
# Form fields that must not appear in logs.
_SECRET_FIELDS = frozenset(
    {"access_token", "assertion", "client_assertion", "client_secret", "code", "code_verifier", "id_token_hint"}
    | {"nonce", "password", "refresh_token", "state", "token"}
)
_TRANSPORT_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, httpcore.UnsupportedProtocol)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """Status, headers and body of a provider's response."""

    status: int
    media_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)  # names are case-insensitive
    secrets: frozenset[str] = field(default=frozenset(), repr=False)  # of the request, in each form in which a response may repeat them

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object. Raises ProviderError if it is anything else."""
        try:
            return strict_json.parse_object(self.body)
        except ValueError as error:
            raise ProviderError("the response is not a JSON object") from error

    def json_list(self) -> list[Any]:
        """Return the body as a JSON list. Raises ProviderError if it is anything else."""
        try:
            return strict_json.parse_list(self.body)
        except ValueError as error:
            raise ProviderError("the response is not a JSON list") from error


class ProviderHttp:
    """The connections to one provider. Raises ProviderError for any failure to get a response; `peer` is its name in messages."""

    def __init__(
        self,
        options: Options,
        scope: AddressScope,
        *,
        timeout: float = TIMEOUT,
        max_body: int = MAX_BODY,
        health: HealthTracker | None = None,
        peer: str = "the identity provider",
    ):
        self.health = health or HealthTracker()
        self._scope = scope
        self._calls = HttpMetrics.client(options.service_label)
        self._peer = peer
        self._timeout = timeout
        self._max_body = max_body
        # trust_env off: .netrc and proxy variables must not add credentials, or redirect requests that contain the client secret.
        transport = ScopedTransport(scope, client_context(options.certificate_authority))
        self._client = httpx.AsyncClient(transport=transport, timeout=timeout, follow_redirects=False, trust_env=False)
        # An httpx client sends cookies of one response with the next user's request (0.28.1), so this jar accepts none.
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> ProviderResponse:
        return await self.send("GET", url, headers or {})

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> ProviderResponse:
        sent = {"Content-Type": FORM, **(headers or {})}
        return await self.send("POST", url, sent, urlencode(form).encode())

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, method: str, url: str, headers: Mapping[str, str], content: bytes = b"") -> ProviderResponse:
        # Uncompressed, so that the limit on the body also limits memory.
        sent = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "gate", **headers}
        started_at, status, size = time.monotonic(), "error", None
        try:
            with span("provider", CLIENT, {"http.request.method": method, "server.address": _host(url)}) as traced:
                async with asyncio.timeout(self._timeout), self._client.stream(method, url, headers=sent, content=content) as response:
                    traced.set_attributes({"http.response.status_code": response.status_code})
                    self._scope.learn_from(response)
                    body = await self._read_body(response)
                    status, size = str(response.status_code), len(body)
        except AddressRefused as error:
            raise self._out_of_scope(url, error) from error
        except (*_TRANSPORT_ERRORS, httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            # Only the host of the URL, because the rest may contain secrets.
            reason = f"{self._peer} at {_host(url)} {classify_failure(error)}"
            self.health.mark_down(reason)
            raise ProviderError(reason) from error
        finally:
            self._calls.observe(_host(url), method, status, time.monotonic() - started_at, len(content), size)
        if response.status_code >= 500:
            self.health.mark_down(f"{self._peer} at {_host(url)} returned status {response.status_code}")
        else:
            self.health.mark_up()
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return ProviderResponse(response.status_code, media_type, body, response.headers, _secrets(headers, content))

    async def check_address(self, url: str) -> None:
        """Raise ProviderError if the URL's host has no address, or only addresses that are out of scope."""
        try:
            await self._scope.addresses(url)
        except AddressRefused as error:
            raise self._out_of_scope(url, error) from error
        except (httpcore.ConnectError, httpx.InvalidURL) as error:
            raise ProviderError(f"{self._peer} at {_host(url)} {classify_failure(error)}") from error

    async def _read_body(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._max_body:
                raise ProviderError(f"the response of {self._peer} exceeds {self._max_body} bytes")
        return bytes(body)

    def _out_of_scope(self, url: str, error: AddressRefused) -> ProviderError:
        host, named_by = _host(url), self._scope.host
        log.warning("provider endpoint refused: internal address", host=host, address=error.address, named_by=named_by)
        reason = (
            f"{host}: the discovery document of the public host {named_by} refers to this host, which "
            f"is at {error}. Nothing was sent there. Use a public endpoint"
        )
        self.health.mark_down(reason)
        return ProviderError(reason)


def _secrets(headers: Mapping[str, str], content: bytes) -> frozenset[str]:
    """Return the secrets in a request, plain and in each encoding, so that they can be redacted from logs."""
    scheme, _, credentials = headers.get("Authorization", "").partition(" ")
    found = {credentials}
    if scheme == "Basic":
        found.add(b64decode(credentials).decode().partition(":")[2])
    if headers.get("Content-Type") == FORM:
        found |= {value for name, value in parse_qsl(content.decode()) if name in _SECRET_FIELDS}
    found |= {unquote_plus(secret) for secret in found}
    return frozenset(form for secret in found if secret for form in (secret, quote(secret), quote(secret, safe=""), quote_plus(secret)))


def _host(url: str) -> str:
    """Return the host of a URL for messages, without user info."""
    authority = re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]
    return authority.rpartition("@")[2]
