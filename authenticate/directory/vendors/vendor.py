"""Vendor's directory: what one may differ in; how its API is called is the same for all (api.py)."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from authenticate.directory.snapshot import DirectoryPerson, DirectorySnapshot
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
    """A directory of one kind of provider.  State between two readings is the vendor's own, in memory only."""

    kind: ClassVar[str]
    default_base: ClassVar[str] = ""

    def __init__(self, provider: ProviderConfig, account: DirectoryAccount, clock: Callable[[], float], *, is_known: bool = True):
        """`is_known`: this process knows who signs in the provider's people."""
        self.provider = provider
        self.provider_id = provider.id
        self.provider_url = provider.url or DEFAULT_URLS.get(self.kind, "")
        self.site = origin(self.provider_url)
        self.base = provider.directory_url or self.derived_base()
        self.account = account
        self.clock = clock
        self.credentials = self.proof()
        self.issuer = self.issuer_of_people() if is_known else ""

    def __str__(self) -> str:
        return f"{self.kind} at {urlsplit(self.base).netloc}"

    def derived_base(self) -> str:
        """The address of the API, derived from the sign-in URL."""
        return self.default_base or self.site

    def issuer_of_people(self) -> str:
        """The issuer that signs in those whom it lists."""
        return expected_issuer(self.kind, self.provider_url)

    @abstractmethod
    def proof(self) -> Credentials: ...

    def is_limited(self, answer: ProviderResponse) -> bool:
        """Rate-limited response."""
        return rate_limits.is_limited(answer)

    @abstractmethod
    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        """The whole directory; DirectoryError where any part of it can't be had."""

    @abstractmethod
    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryPerson | None:
        """One person, None where the directory does not know them.  `access_token` is the person's own, of this sign-in."""

    async def assembled(self, builder: DirectoryBuilder) -> DirectorySnapshot:
        """The snapshot, made in a thread: millions of memberships take seconds."""
        return await asyncio.to_thread(builder.snapshot, self.provider_id, self.issuer)

    def person(self, subject: str, email: str, name: str, groups: Mapping[str, DirectoryGroup]) -> DirectoryPerson:
        user = DirectoryUser(f"{self.provider_id}/{subject}", email, name, tuple(sorted(groups)), issuer=self.issuer)
        return DirectoryPerson(user, tuple(replace(groups[id], issuer=self.issuer) for id in sorted(groups)))


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def segment(text: str) -> str:
    """A path segment of any text, percent-encoded."""
    return quote(text, safe="") if text not in (".", "..") else text.replace(".", "%2E")


def link_next(answer: ProviderResponse, document: Any) -> str:
    """The URL with `rel=next` in the Link header (RFC 8288), "" for none."""
    match = _NEXT.search(answer.headers.get("link", ""))
    return match[1] if match else ""
