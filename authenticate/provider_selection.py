"""Provider choice: where a person signs in.  Asked are they only where more than one is left."""

from collections.abc import Iterable

from config.options import Options
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord
from foundation.crypto import cookies
from foundation.errors import BadRequest
from foundation.web.message import Message

REMEMBERED = 365 * 24 * 3600  # seconds
LONGEST_ADDRESS = 320

Providers = tuple[ProviderConfig, ...]


# enforcement-point: Sign-in and sign-out: Provider selection
class ProviderChoice:
    """Choice among the providers of one configuration.

    The cookie holds an id and proves nothing: whoever could plant it would lead a browser to a provider of ours, where its person signs in
    or does not.
    """

    def __init__(self, options: Options):
        self._providers = options.providers
        self._cookie = cookies.host_prefixed_name(f"{options.cookie_name}_idp", secure=options.cookie_secure)
        self._secure = options.cookie_secure

    def among(self, named: str) -> Providers:
        """Providers that a signed link names, all where it names none; BadRequest where none of them is there any more."""
        ids = named.split()
        found = tuple(provider for id, provider in self._providers.items() if not ids or id in ids)
        if not found:
            raise BadRequest(Message("the identity provider in this link is no longer configured"))
        return found

    def wanted(self, candidates: Providers, id: str) -> ProviderConfig:
        """The one of this id; BadRequest where it is not among them."""
        found = next((provider for provider in candidates if provider.id == id), None)
        if found is None:
            raise BadRequest(Message("this application does not accept the identity provider in the link"))
        return found

    def left(self, candidates: Providers, session: SessionRecord | None, cookie_headers: Iterable[bytes]) -> ProviderConfig | None:
        """The one that is left without a question: the only one, that of the session that is to become stronger, or this browser's last."""
        if len(candidates) == 1:
            return candidates[0]
        before = session.provider if session is not None else self._of_browser(cookie_headers)
        return next((provider for provider in candidates if provider.id == before), None)

    def of_address(self, candidates: Providers, address: str) -> ProviderConfig | None:
        """The one provider that may tell an address of this domain; None where there is none, or more than one."""
        domain = address.rpartition("@")[2].strip().lower() if len(address) <= LONGEST_ADDRESS else ""
        found = [provider for provider in candidates if provider.domains is not None and domain and provider.owns_domain(domain)]
        return found[0] if len(found) == 1 else None

    def remembered(self, id: str) -> list[str]:
        """Set-Cookie values after a sign-in there: a choice that led to none is not made again."""
        return [self._set(id, REMEMBERED)] if len(self._providers) > 1 else []

    def forgotten(self) -> list[str]:
        """Set-Cookie values at a sign-out: who signs in as somebody else may be somebody of another."""
        return [self._set("", 0)] if len(self._providers) > 1 else []

    def _of_browser(self, cookie_headers: Iterable[bytes]) -> str:
        found = {value for name, value in cookies.parse(cookie_headers) if name == self._cookie.encode()}
        return found.pop().decode("ascii", "replace") if len(found) == 1 else ""

    def _set(self, value: str, max_age: int) -> str:
        return cookies.set_cookie(self._cookie, value, max_age=max_age, secure=self._secure)
