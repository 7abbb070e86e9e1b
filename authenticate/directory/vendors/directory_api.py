"""Client of a vendor's directory API: one host only, rate-limited, paginated, with bounded retries."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from copy import copy
from typing import Any, Protocol
from urllib.parse import urlencode, urljoin, urlsplit

from authenticate.directory.snapshot import DirectoryError, TimeBudget
from authenticate.directory.vendors import rate_limits
from authenticate.directory.vendors.snapshot_builder import entries
from authenticate.provider.provider_http import ProviderHttp, ProviderResponse
from foundation.errors import ProviderError

MAX_BODY = 8 * 1024 * 1024  # of one page
MAX_PAGES = 20_000  # of one listing
CONCURRENCY = 8  # requests

Params = Mapping[str, str | int]
Sleep = Callable[[float], Awaitable[None]]
# (response, its JSON) -> the address of the next page, "" for none.
NextPage = Callable[[ProviderResponse, Any], str]


class Credentials(Protocol):
    """Authentication for a directory's API."""

    async def headers(self, api: "DirectoryApi") -> Mapping[str, str]:
        """Return the authentication headers. A token is fetched by `api` if needed."""
        ...

    def invalidate(self) -> bool:
        """Drop rejected credentials. Return True if new ones can be obtained."""
        ...


class RateLimiter:
    """Rate limit of `rate` requests per second, for all that share it; None is unlimited."""

    def __init__(self, rate: float | None, *, now: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep):
        self._step = 1 / rate if rate else 0.0
        self._now = now
        self._sleep = sleep
        self._next = float("-inf")

    async def acquire(self) -> None:
        """Wait for this request's slot."""
        if not self._step:
            return
        now = self._now()
        slot_at = max(self._next, now)
        self._next = slot_at + self._step
        if slot_at > now:
            await self._sleep(slot_at - now)


# enforcement-point: Directory: Hosts that receive directory credentials
class DirectoryApi:
    """HTTP client for one sync of one directory. `base` is its URL; credentials are sent only to its origin."""

    def __init__(
        self,
        base: str,
        http: ProviderHttp,
        credentials: Credentials,
        budget: TimeBudget,
        *,
        pace: RateLimiter,
        is_limited: Callable[[ProviderResponse], bool] = rate_limits.is_limited,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ):
        self.base = base.rstrip("/")
        self.budget = budget
        self._http = http
        self._credentials = credentials
        self._pace = pace
        self._is_limited = is_limited
        self._sleep = sleep
        self._clock = clock
        self._jitter = jitter

    def with_credentials(self, credentials: Credentials) -> "DirectoryApi":
        """Return a client of the same sync with other credentials."""
        other = copy(self)
        other._credentials = credentials
        return other

    async def get(self, address: str, params: Params | None = None, *, accept: tuple[int, ...] = (200,)) -> ProviderResponse:
        """Send a GET request for `address`, a path below the base or a URL on its host.

        Raises DirectoryError for a status not in `accept`.
        """
        return await self._request("GET", self._url(address, params), {}, b"", accept)

    async def post(self, address: str, content: bytes) -> ProviderResponse:
        """Send a POST request with JSON. Raises DirectoryError for any status but 200."""
        return await self._request("POST", self._url(address, None), {"Content-Type": "application/json"}, content, (200,))

    async def token(self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> ProviderResponse:
        """Send a token request. The URL comes from the configuration, never from the directory."""
        sent = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return await self._with_retries(lambda: self._http.send("POST", url, sent, urlencode(form).encode()), url, (200,))

    async def iter_pages(
        self, address: str, params: Params | None, next_page: NextPage, *, accept: tuple[int, ...] = (200,)
    ) -> AsyncIterator[tuple[ProviderResponse, Any]]:
        """Yield each page's response and its JSON. Raises DirectoryError for a repeated page or more than MAX_PAGES."""
        url, seen = self._url(address, params), set[str]()
        while url:
            if url in seen or len(seen) >= MAX_PAGES:
                raise DirectoryError(f"{_loggable_url(url)} has more than {MAX_PAGES} pages, or repeats one")
            seen.add(url)
            answer = await self._request("GET", url, {}, b"", accept)
            document = parse_page(answer, url)
            yield answer, document
            following = next_page(answer, document)
            url = self._url(following, None) if following else ""

    async def iter_entries(self, address: str, params: Params, next_page: NextPage, key: str = "") -> AsyncIterator[Any]:
        """Yield each entry of each page: of the list under `key`, or of the page itself. Raises DirectoryError."""
        async for _, page in self.iter_pages(address, params, next_page):
            for entry in entries(page, key):
                yield entry

    async def get_or_none(self, address: str, params: Params | None = None) -> dict[str, Any] | None:
        """Return the object at `address`, None if it does not exist. Raises DirectoryError."""
        answer = await self.get(address, params, accept=(200, 404))
        return None if answer.status == 404 else answer.json()

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, accept: tuple[int, ...]
    ) -> ProviderResponse:
        async def send() -> ProviderResponse:
            return await self._http.send(method, url, {**headers, **await self._credentials.headers(self)}, content)

        answer = await self._with_retries(send, url, (*accept, 401))
        if answer.status == 401 and 401 not in accept and self._credentials.invalidate():
            answer = await self._with_retries(send, url, (*accept, 401))
        if answer.status not in accept:
            raise _status_error(answer, url)
        return answer

    async def _with_retries(self, send: Callable[[], Awaitable[ProviderResponse]], url: str, accept: tuple[int, ...]) -> ProviderResponse:
        """Send until a response is accepted or the error is permanent."""
        for attempt in range(self.budget.attempts):
            await self._pace.acquire()
            self.budget.requests += 1
            answer: ProviderResponse | None = None
            try:
                answer = await send()
            except DirectoryError:
                raise
            except ProviderError as error:
                reason: DirectoryError = DirectoryError(str(error))
            else:
                if answer.status in accept:
                    return answer
                reason = _status_error(answer, url)
                if not self._is_limited(answer) and answer.status not in rate_limits.TRANSIENT:
                    raise reason
            if attempt + 1 < self.budget.attempts:
                await self._wait(answer, attempt, reason)
        raise reason

    async def _wait(self, answer: ProviderResponse | None, attempt: int, reason: DirectoryError) -> None:
        seconds = rate_limits.retry_delay(answer, attempt, self._clock(), self._jitter())
        if seconds >= self.budget.remaining:
            raise DirectoryError(f"{reason}, and requests a wait of {seconds:.0f} s, more than idp_refresh_directory_timeout allows")
        await self._sleep(seconds)

    def _url(self, address: str, params: Params | None) -> str:
        """Return the absolute URL. Raises DirectoryError for another origin, because credentials are sent only to the base's."""
        try:
            url = f"{self.base}{address}" if address.startswith("/") and not address.startswith("//") else urljoin(f"{self.base}/", address)
        except ValueError:  # an invalid IPv6 address in brackets
            url = ""
        if _origin(url) != _origin(self.base):
            raise DirectoryError(f"{_loggable_url(self.base)} linked to a page on another host, which gate does not request")
        return f"{url}{'&' if '?' in url else '?'}{urlencode(params)}" if params else url


def parse_page(answer: ProviderResponse, url: str) -> Any:
    """Return the JSON object or list of a page. Raises DirectoryError."""
    try:
        return answer.json_list() if answer.body.lstrip()[:1] == b"[" else answer.json()
    except ProviderError as error:
        raise DirectoryError(f"{_loggable_url(url)} did not return JSON") from error


def _status_error(answer: ProviderResponse, url: str) -> DirectoryError:
    hint = {
        401: ": the credentials of the service account were rejected",
        403: ": the service account lacks the permission to read this",
    }.get(answer.status, "")
    return DirectoryError(f"{_loggable_url(url)} returned status {answer.status}{hint}")


def _origin(url: str) -> tuple[str, str, int | None]:
    """Return the origin of a URL as (scheme, host, port); empty strings if it has none. Never raises ValueError."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", "", None
    if parts.username is not None or "\\" in url or not url.isascii() or not url.isprintable():
        return "", "", None
    return parts.scheme, parts.hostname or "", port


def _loggable_url(url: str) -> str:
    """Return the URL without its query, which may contain secrets."""
    parts = urlsplit(url)
    return f"{parts.hostname or ''}{parts.path}"[:200]
