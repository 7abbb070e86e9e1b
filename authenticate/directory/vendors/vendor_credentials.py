"""Credentials for a directory's API: static headers, or a cached access token."""

from collections.abc import Awaitable, Callable, Mapping

from authenticate.directory.snapshot import DirectoryError
from authenticate.directory.vendors.directory_api import DirectoryApi
from authenticate.provider.provider_http import ProviderResponse
from foundation.errors import ProviderError

# Seconds before its expiry at which a token is replaced, because the directory's clock may be ahead.
EXPIRY_MARGIN = 60.0
MIN_LIFETIME = 30.0


class StaticHeaders:
    """Static request headers."""

    def __init__(self, headers: Mapping[str, str]):
        self._headers = headers

    def __repr__(self) -> str:
        return "<FixedHeaders>"

    async def headers(self, api: DirectoryApi) -> Mapping[str, str]:
        return self._headers

    def invalidate(self) -> bool:
        return False


class AccessTokenCredentials:
    """A cached access token from `fetch`. `scheme` is its prefix in the Authorization header."""

    def __init__(
        self, fetch: Callable[[DirectoryApi], Awaitable[ProviderResponse]], clock: Callable[[], float], *, scheme: str = "Bearer "
    ):
        self._fetch = fetch
        self._clock = clock
        self._scheme = scheme
        self._token = ""
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<FetchedToken {'held' if self._token else 'to be fetched'}>"

    async def headers(self, api: DirectoryApi) -> Mapping[str, str]:
        if not self._token or self._clock() >= self._until:
            self._token, lifetime = _parse_token(await self._fetch(api))
            self._until = self._clock() + max(lifetime - EXPIRY_MARGIN, MIN_LIFETIME)
        return {"Authorization": f"{self._scheme}{self._token}"}

    def invalidate(self) -> bool:
        had_one, self._token = bool(self._token), ""
        return had_one


def _parse_token(answer: ProviderResponse) -> tuple[str, float]:
    """Return the token and its lifetime in seconds (RFC 6749 5.1). Raises DirectoryError."""
    try:
        document = answer.json()
    except ProviderError as error:
        raise DirectoryError("the token endpoint of the directory did not return a JSON object") from error
    token, lifetime = document.get("access_token"), document.get("expires_in", 3600)
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise DirectoryError("the token endpoint of the directory returned no valid token")
    try:
        return token, float(lifetime)
    except (TypeError, ValueError):
        return token, 0.0
