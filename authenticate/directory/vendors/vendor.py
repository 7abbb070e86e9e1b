"""Base class of the vendors' directories. All of them call their API through directory_api.py."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from authenticate.directory.snapshot import DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors import rate_limits
from authenticate.directory.vendors.directory_api import Credentials, DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder
from authenticate.provider.provider_http import ProviderResponse
from config.issuers import DEFAULT_URLS, expected_issuer
from config.provider_config import ProviderConfig
from config.settings.directory_account import DirectoryAccount
from databroker.records import DirectoryGroup, DirectoryUser

_NEXT = re.compile(r'<([^<>]*)>\s*;[^,]*\brel="?next"?', re.IGNORECASE)


class Vendor(ABC):
    """A directory of one kind of provider. Its state between two syncs is in memory only."""

    kind: ClassVar[str]
    default_api_base: ClassVar[str] = ""

    def __init__(self, provider: ProviderConfig, account: DirectoryAccount, clock: Callable[[], float], *, knows_issuer: bool = True):
        """Initialize. `knows_issuer` is False if this process does not know the issuer of the provider's users."""
        self.provider = provider
        self.provider_id = provider.id
        self.provider_url = provider.url or DEFAULT_URLS.get(self.kind, "")
        self.site = origin(self.provider_url)
        self.base = provider.directory_url or self.default_api_url()
        self.account = account
        self.clock = clock
        self.credentials = self.build_credentials()
        self.issuer = self.users_issuer() if knows_issuer else ""

    def __str__(self) -> str:
        return f"{self.kind} at {urlsplit(self.base).netloc}"

    def default_api_url(self) -> str:
        """Return the URL of the API, derived from the sign-in URL."""
        return self.default_api_base or self.site

    def users_issuer(self) -> str:
        """Return the issuer that signs in the directory's users."""
        return expected_issuer(self.kind, self.provider_url)

    @abstractmethod
    def build_credentials(self) -> Credentials: ...

    def is_limited(self, answer: ProviderResponse) -> bool:
        """Return whether the response is rate-limited."""
        return rate_limits.is_limited(answer)

    @abstractmethod
    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        """Fetch the complete directory. Raises DirectoryError if any part is unavailable."""

    @abstractmethod
    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        """Look up one user, None if the directory does not have them. `access_token` is the user's, from this sign-in."""

    async def build_snapshot(self, builder: DirectoryBuilder) -> DirectorySnapshot:
        """Build the snapshot in a thread, because millions of memberships take seconds."""
        return await asyncio.to_thread(builder.snapshot, self.provider_id, self.issuer)

    def build_member(self, subject: str, email: str, name: str, groups: Mapping[str, DirectoryGroup]) -> DirectoryMember:
        user = DirectoryUser(f"{self.provider_id}/{subject}", email, name, tuple(sorted(groups)), issuer=self.issuer)
        return DirectoryMember(user, tuple(replace(groups[id], issuer=self.issuer) for id in sorted(groups)))


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def segment(text: str) -> str:
    """Return the text as one percent-encoded path segment."""
    return quote(text, safe="") if text not in (".", "..") else text.replace(".", "%2E")


def link_next(answer: ProviderResponse, document: Any) -> str:
    """Return the URL with `rel=next` in the Link header (RFC 8288), "" for none."""
    match = _NEXT.search(answer.headers.get("link", ""))
    return match[1] if match else ""
