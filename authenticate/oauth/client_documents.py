"""Client ID metadata documents: the client's id is the https URL of a JSON document that describes it.

Any client can choose the URL, so it must not make gate send requests into an internal network (SSRF).  Therefore gate requires https,
dials only a public address that it has checked, follows no redirects, and limits time, size and number of requests.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

import httpcore
import httpx
import structlog

from authenticate.oauth.oauth_client import NO_AUTHENTICATION, PRIVATE_KEY_JWT, ClientKeys, OAuthClient, Registration
from authenticate.provider import strict_json
from authenticate.provider.address_scope import AddressRefused, AddressScope, ScopedTransport
from authenticate.provider.tokens import key_set
from authenticate.provider.tokens.key_set import REFETCH_INTERVAL, Keys
from config.options import Options
from config.settings.oauth_settings import MAX_REDIRECT_URIS, PRIVATE_PARTS
from foundation.bounded_cache import MIB, BoundedCache
from foundation.client_tls import client_context
from foundation.connection_errors import classify_failure
from foundation.errors import GateError, ProviderError
from foundation.oauth_client_ids import document_host
from foundation.oauth_redirect_uris import parse_redirect_uri
from foundation.web.message import Message
from foundation.web.plain_text import is_sanitized

TIMEOUT = 5.0  # seconds for the complete exchange
MAX_BODY = 64 * 1024
MAX_NAME_LENGTH = 100
MAX_CONCURRENT = 8
MAX_CACHED = 1000
# Bounds of a document's lifetime, whatever its headers say, in seconds.
MIN_LIFETIME, DEFAULT_LIFETIME, MAX_LIFETIME = 60.0, 3600.0, 24 * 3600.0
KEYS_LIFETIME = 3600.0
_MAX_AGE = re.compile(r"(?:\A|,)\s*max-age=([0-9]{1,9})\s*(?:,|\Z)", re.IGNORECASE)
_TRANSPORT_ERRORS = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, httpcore.UnsupportedProtocol)

log = structlog.get_logger(__name__)


class ClientDocumentError(GateError):
    """The metadata document of a client is unavailable or invalid; the message is for the user."""

    status = 400


def is_document_url(client_id: str) -> bool:
    """Return whether a client id is the URL of a metadata document, in the only spelling that gate accepts."""
    return bool(document_host(client_id))


class ClientDocuments:
    """Cache of clients by the URL of their document."""

    def __init__(self, options: Options, clock: Callable[[], float], scope: AddressScope | None = None):
        self._domains = options.mcp_client_domains
        self._clock = clock
        transport = ScopedTransport(scope or AddressScope.public(), client_context(options.certificate_authority))
        self._http = httpx.AsyncClient(transport=transport, timeout=TIMEOUT, follow_redirects=False, trust_env=False)
        self._cache: BoundedCache[str, tuple[OAuthClient, float]] = BoundedCache(MAX_CACHED, 16 * MIB)
        self._key_sets: BoundedCache[str, tuple[Keys, float]] = BoundedCache(MAX_CACHED, 16 * MIB)  # with the time of the fetch
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def is_enabled(self) -> bool:
        """Whether any host's documents are accepted."""
        return self._domains is None or bool(self._domains)

    # enforcement-point: Authorization server: Client ID metadata documents
    def allows(self, url: str) -> bool:
        """Return whether a document of this URL may be used: https, and of a host in `mcp_client_domains`."""
        if not (host := document_host(url)):
            return False
        return self._domains is None or any(
            host.endswith(domain[1:]) if domain.startswith("*.") else host == domain for domain in self._domains
        )

    def cached(self, url: str) -> OAuthClient | None:
        known = self._cache.get(url)
        return known[0] if known is not None and self._clock() < known[1] and self.allows(url) else None

    async def get(self, url: str) -> OAuthClient:
        """Return the client that a document describes.  Raises ClientDocumentError."""
        if not self.allows(url):
            raise ClientDocumentError(Message("clients of this host are not allowed here"))
        if (known := self.cached(url)) is not None:
            return known
        body, lifetime = await self._fetch_in_turn(url)
        client = parse_document(url, body)
        self._cache.put(url, (client, self._clock() + lifetime), len(body) + 2 * len(url))
        return client

    async def keys_for(self, client: OAuthClient, *, refetches: bool = False) -> Keys:
        """Return the keys of a client; with `refetches` those of its URL, at most every REFETCH_INTERVAL.  Raises ClientDocumentError."""
        is_published = client.registration is Registration.METADATA_DOCUMENT
        keys = (await self.get(client.client_id)).keys if is_published else client.keys
        if keys is None or not keys.uri:
            return keys.keys if keys is not None else ()
        known, lifetime = self._key_sets.get(keys.uri), REFETCH_INTERVAL if refetches else KEYS_LIFETIME
        if known is None or self._clock() >= known[1] + lifetime:
            body, _ = await self._fetch_in_turn(keys.uri)
            known = _read_key_set(keys.uri, body), self._clock()
            self._key_sets.put(keys.uri, known, len(body) + 2 * len(keys.uri))
        return known[0]

    async def _fetch_in_turn(self, url: str) -> tuple[bytes, float]:
        if self._slots.locked():
            raise ClientDocumentError(Message("too many clients are being checked; try again in a few seconds"))
        async with self._slots:
            return await self._fetch(url)

    async def _fetch(self, url: str) -> tuple[bytes, float]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close", "User-Agent": "gate"}
        try:
            async with asyncio.timeout(TIMEOUT), self._http.stream("GET", url, headers=headers) as response:
                if response.status_code != 200:
                    raise _refused(url, f"it responded with status {response.status_code}")
                media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if media_type != "application/json" and not (media_type.startswith("application/") and media_type.endswith("+json")):
                    raise _refused(url, "its media type is not JSON")
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_BODY:
                        raise _refused(url, f"it is larger than {MAX_BODY} bytes")
                return bytes(body), _lifetime(response.headers.get("cache-control", ""))
        except AddressRefused as error:
            raise _refused(url, f"its host is at {error}") from error
        except (*_TRANSPORT_ERRORS, httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise _refused(url, f"its host {classify_failure(error)}") from error


def parse_document(url: str, body: bytes) -> OAuthClient:
    """Return the client in a metadata document.  Raises ClientDocumentError."""
    try:
        document = strict_json.parse_object(body)
    except ValueError as error:
        raise _refused(url, f"it is not a JSON object: {error}") from error
    name, uris = document.get("client_name"), document.get("redirect_uris")
    if document.get("client_id") != url:
        raise _refused(url, "its client_id is not its URL")
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME_LENGTH or not is_sanitized(name):
        raise _refused(url, f"client_name must be printable text of at most {MAX_NAME_LENGTH} characters")
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_REDIRECT_URIS:
        raise _refused(url, f"redirect_uris must have from 1 to {MAX_REDIRECT_URIS} entries")
    if not all(isinstance(uri, str) and parse_redirect_uri(uri) is not None for uri in uris):
        raise _refused(url, "redirect_uris must be https URLs, or http URLs of 127.0.0.1, [::1] or localhost")
    return OAuthClient(url, name.strip(), tuple(uris), Registration.METADATA_DOCUMENT, keys=_parse_keys(url, document))


# enforcement-point: Authorization server: Keys of clients with a metadata document
def _parse_keys(url: str, document: Mapping[str, Any]) -> ClientKeys | None:
    """Return the keys of a client that authenticates with them, None for a public client.  Raises ClientDocumentError."""
    method = document.get("token_endpoint_auth_method", NO_AUTHENTICATION)
    if method not in (NO_AUTHENTICATION, PRIVATE_KEY_JWT) or "client_secret" in document:
        raise _refused(url, "token_endpoint_auth_method must be none or private_key_jwt")
    if method == NO_AUTHENTICATION:
        return None
    keys, uri = document.get("jwks"), document.get("jwks_uri")
    if (keys is None) == (uri is None):
        raise _refused(url, "private_key_jwt needs either jwks or jwks_uri")
    if uri is None:
        return ClientKeys(_parse_key_set(url, keys))
    if not isinstance(uri, str) or not document_host(uri):
        raise _refused(url, "jwks_uri must be https with a path")
    return ClientKeys(uri=uri)


def _read_key_set(url: str, body: bytes) -> Keys:
    try:
        return _parse_key_set(url, strict_json.parse_object(body))
    except ValueError as error:
        raise _refused(url, f"it is not a JSON object: {error}") from error


def _parse_key_set(url: str, value: Any) -> Keys:
    """Return the public keys in a key set.  Raises ClientDocumentError."""
    try:
        keys = key_set.parse(value if isinstance(value, dict) else {})
    except ProviderError as error:
        raise _refused(url, "its jwks is not a key set") from error
    if not keys or any(PRIVATE_PARTS & key.keys() for key in keys):
        raise _refused(url, "its jwks has no key, or one that is not public")
    return keys


def _refused(url: str, reason: str) -> ClientDocumentError:
    log.warning("client metadata document refused", client_id=url, reason=reason)
    return ClientDocumentError(Message("the description of this client can't be used; the log has the reason"))


def _lifetime(cache_control: str) -> float:
    if "no-store" in cache_control.lower() or "no-cache" in cache_control.lower():
        return MIN_LIFETIME
    match = _MAX_AGE.search(cache_control)
    return DEFAULT_LIFETIME if match is None else min(max(float(match[1]), MIN_LIFETIME), MAX_LIFETIME)
