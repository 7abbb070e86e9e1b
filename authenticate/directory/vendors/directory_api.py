"""Client of a vendor's directory API: one host only, rate-limited, paginated, with retries, and never without an end."""

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
AT_ONCE = 8  # requests

Params = Mapping[str, str | int]
Sleep = Callable[[float], Awaitable[None]]
# The answer, and what it holds -> the address of the next page, "" for none.
NextPage = Callable[[ProviderResponse, Any], str]


class Credentials(Protocol):
    """Authentication at a directory's API."""

    async def headers(self, api: "DirectoryApi") -> Mapping[str, str]:
        """The request headers that authenticate us; `api` fetches a token where one is needed."""
        ...

    def forget(self) -> bool:
        """Drop credentials that were refused; True where others can be had."""
        ...


class RateLimiter:
    """Rate limit of `rate` requests a second, for all who share it; None is no limit."""

    def __init__(self, rate: float | None, *, now: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep):
        self._step = 1 / rate if rate else 0.0
        self._now = now
        self._sleep = sleep
        self._next = float("-inf")

    async def turn(self) -> None:
        """Wait for this request's slot."""
        if not self._step:
            return
        now = self._now()
        at = max(self._next, now)
        self._next = at + self._step
        if at > now:
            await self._sleep(at - now)


# enforcement-point: Directory: Hosts that receive directory credentials
class DirectoryApi:
    """HTTP client for one reading of one directory.  `base` is its address; nothing but it ever gets the credentials."""

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

    def proven_by(self, credentials: Credentials) -> "DirectoryApi":
        """A client of the same reading with other credentials."""
        other = copy(self)
        other._credentials = credentials
        return other

    async def get(self, address: str, params: Params | None = None, *, accept: tuple[int, ...] = (200,)) -> ProviderResponse:
        """The response to a GET of `address`, a path below the base or a URL on its host; DirectoryError for a status not in `accept`."""
        return await self._asked("GET", self._url(address, params), {}, b"", accept)

    async def post(self, address: str, content: bytes) -> ProviderResponse:
        """The response to a POST of JSON; DirectoryError for any status but 200."""
        return await self._asked("POST", self._url(address, None), {"Content-Type": "application/json"}, content, (200,))

    async def token(self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> ProviderResponse:
        """The response of a token endpoint.  Its address is the operator's word, never the directory's."""
        sent = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return await self._persistent(lambda: self._http.send("POST", url, sent, urlencode(form).encode()), url, (200,))

    async def pages(
        self, address: str, params: Params | None, next_page: NextPage, *, accept: tuple[int, ...] = (200,)
    ) -> AsyncIterator[tuple[ProviderResponse, Any]]:
        """Each page's response and its JSON, to the last one; DirectoryError for a listing that goes in circles, or never ends."""
        url, seen = self._url(address, params), set[str]()
        while url:
            if url in seen or len(seen) >= MAX_PAGES:
                raise DirectoryError(f"{_place(url)} has more than {MAX_PAGES} pages, or repeats one")
            seen.add(url)
            answer = await self._asked("GET", url, {}, b"", accept)
            document = parsed(answer, url)
            yield answer, document
            following = next_page(answer, document)
            url = self._url(following, None) if following else ""

    async def listed(self, address: str, params: Params, next_page: NextPage, key: str = "") -> AsyncIterator[Any]:
        """Each entry of each page: of the list under `key`, or of the page that is one; DirectoryError."""
        async for _, page in self.pages(address, params, next_page):
            for entry in entries(page, key):
                yield entry

    async def found(self, address: str, params: Params | None = None) -> dict[str, Any] | None:
        """The object at `address`, None where it is not there; DirectoryError."""
        answer = await self.get(address, params, accept=(200, 404))
        return None if answer.status == 404 else answer.json()

    async def _asked(self, method: str, url: str, headers: Mapping[str, str], content: bytes, accept: tuple[int, ...]) -> ProviderResponse:
        async def send() -> ProviderResponse:
            return await self._http.send(method, url, {**headers, **await self._credentials.headers(self)}, content)

        answer = await self._persistent(send, url, (*accept, 401))
        if answer.status == 401 and 401 not in accept and self._credentials.forget():
            answer = await self._persistent(send, url, (*accept, 401))
        if answer.status not in accept:
            raise _refused(answer, url)
        return answer

    async def _persistent(self, send: Callable[[], Awaitable[ProviderResponse]], url: str, accept: tuple[int, ...]) -> ProviderResponse:
        """Retries until a response is accepted, or will not change."""
        for attempt in range(self.budget.attempts):
            await self._pace.turn()
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
                reason = _refused(answer, url)
                if not self._is_limited(answer) and answer.status not in rate_limits.PASSING:
                    raise reason
            if attempt + 1 < self.budget.attempts:
                await self._wait(answer, attempt, reason)
        raise reason

    async def _wait(self, answer: ProviderResponse | None, attempt: int, reason: DirectoryError) -> None:
        seconds = rate_limits.pause(answer, attempt, self._clock(), self._jitter())
        if seconds >= self.budget.left:
            raise DirectoryError(f"{reason}, and requests a wait of {seconds:.0f} s, more than idp_refresh_directory_timeout allows")
        await self._sleep(seconds)

    def _url(self, address: str, params: Params | None) -> str:
        """The absolute URL; DirectoryError where it would lead off the directory's own host, which alone gets our credentials."""
        try:
            url = f"{self.base}{address}" if address.startswith("/") and not address.startswith("//") else urljoin(f"{self.base}/", address)
        except ValueError:  # a bracket that opens no IPv6 address
            url = ""
        if _origin(url) != _origin(self.base):
            raise DirectoryError(f"{_place(self.base)} linked to a page on another host, which gate does not request")
        return f"{url}{'&' if '?' in url else '?'}{urlencode(params)}" if params else url


def parsed(answer: ProviderResponse, url: str) -> Any:
    """The JSON object or list of a page; DirectoryError."""
    try:
        return answer.json_list() if answer.body.lstrip()[:1] == b"[" else answer.json()
    except ProviderError as error:
        raise DirectoryError(f"{_place(url)} did not return JSON") from error


def _refused(answer: ProviderResponse, url: str) -> DirectoryError:
    hint = {
        401: ": the credentials of the service account were rejected",
        403: ": the service account lacks the permission to read this",
    }.get(answer.status, "")
    return DirectoryError(f"{_place(url)} returned status {answer.status}{hint}")


def _origin(url: str) -> tuple[str, str, int | None]:
    """The origin of a URL as (scheme, host, port); empty for what has none, never a ValueError."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", "", None
    if parts.username is not None or "\\" in url or not url.isascii() or not url.isprintable():
        return "", "", None
    return parts.scheme, parts.hostname or "", port


def _place(url: str) -> str:
    """The URL without its query, which may hold what belongs in no log."""
    parts = urlsplit(url)
    return f"{parts.hostname or ''}{parts.path}"[:200]
