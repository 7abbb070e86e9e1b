"""Directory source: a vendor's API with credentials, a rate limit and one HTTP client."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from authenticate.directory.snapshot import DirectoryError, DirectoryMember, DirectorySnapshot, TimeBudget
from authenticate.directory.vendors.directory_api import MAX_BODY, DirectoryApi, RateLimiter, Sleep
from authenticate.directory.vendors.vendor import Vendor
from authenticate.directory.vendors.vendor_registry import build_vendor
from authenticate.provider.address_scope import AddressScope
from authenticate.provider.provider_http import ProviderHttp
from config.options import Options
from config.provider_config import ProviderConfig
from foundation.errors import ProviderError

log = structlog.get_logger(__name__)

LOOK_UP_TIMEOUT = 5.0  # seconds; a sign-in waits for it


class DirectorySource:
    """A vendor's directory. `look_up` and `fetch` may run concurrently."""

    def __init__(self, options: Options, vendor: Vendor, clock: Callable[[], float] = time.time, *, sleep: Sleep = asyncio.sleep):
        self._vendor = vendor
        self._clock = clock
        self._sleep = sleep
        # No scope: its URLs come from the operator or the vendor, or are pages of the same origin (`DirectoryApi._url`).
        self._http = ProviderHttp(options, AddressScope(None), max_body=MAX_BODY)
        self._pace = RateLimiter(float(options.idp_qps) if options.idp_qps is not None else None, sleep=sleep)

    @classmethod
    def from_options(cls, options: Options, provider: ProviderConfig, clock: Callable[[], float] = time.time) -> "DirectorySource | None":
        vendor = build_vendor(options, provider, clock)
        return cls(options, vendor, clock) if vendor is not None else None

    def __str__(self) -> str:
        return str(self._vendor)

    @property
    def provider(self) -> ProviderConfig:
        return self._vendor.provider

    async def fetch(self, budget: TimeBudget) -> DirectorySnapshot:
        """Fetch the complete directory. Raises DirectoryError."""
        with _malformed_as_error():
            return await self._vendor.fetch(self._api(budget))

    async def look_up(self, user_id: str, access_token: str) -> DirectoryMember | None:
        """Look up one user, None if unknown. Raises ProviderError. There are no retries because a sign-in waits."""
        provider, _, subject = user_id.partition("/")
        if provider != self._vendor.provider_id or not subject:
            return None
        budget = TimeBudget(deadline=time.monotonic() + LOOK_UP_TIMEOUT, attempts=1)
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT):
                with _malformed_as_error():
                    return await self._vendor.look_up(self._api(budget), subject, access_token)
        except TimeoutError as error:
            raise ProviderError(f"the directory took longer than {LOOK_UP_TIMEOUT:g} s") from error

    async def close(self) -> None:
        await self._http.close()

    def _api(self, budget: TimeBudget) -> DirectoryApi:
        vendor = self._vendor
        return DirectoryApi(
            vendor.base,
            self._http,
            vendor.credentials,
            budget,
            pace=self._pace,
            is_limited=vendor.is_limited,
            sleep=self._sleep,
            clock=self._clock,
        )


@contextmanager
def _malformed_as_error() -> Iterator[None]:
    """Convert the errors that a response of unexpected form causes into DirectoryError."""
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        log.warning("unexpected directory API response", exc_info=error)
        raise DirectoryError(f"unexpected response of the directory API ({type(error).__name__})") from error
