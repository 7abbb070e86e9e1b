"""Home realm discovery: select the identity provider for a sign-in. The user is prompted only if several remain."""

from collections.abc import Iterable

from config.options import Options
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord
from foundation.crypto import cookies
from foundation.errors import BadRequest
from foundation.web.message import Message

COOKIE_MAX_AGE = 365 * 24 * 3600  # seconds
MAX_EMAIL_LENGTH = 320

Providers = tuple[ProviderConfig, ...]


# enforcement-point: Sign-in and sign-out: Provider selection
class ProviderSelector:
    """Selection among the providers of one configuration.

    The cookie contains an id and proves nothing: a forged cookie only leads the browser to another configured provider.
    """

    def __init__(self, options: Options):
        self._providers = options.providers
        self._cookie = cookies.host_prefixed_name(f"{options.cookie_name}_idp", secure=options.cookie_secure)
        self._secure = options.cookie_secure

    def candidates(self, named: str) -> Providers:
        """Return the providers that a signed link names, all if it names none. Raises BadRequest if none is configured any more."""
        ids = named.split()
        found = tuple(provider for id, provider in self._providers.items() if not ids or id in ids)
        if not found:
            raise BadRequest(Message("the identity provider in this link is no longer configured"))
        return found

    def require(self, candidates: Providers, id: str) -> ProviderConfig:
        """Return the candidate with this id. Raises BadRequest if there is none."""
        found = next((provider for provider in candidates if provider.id == id), None)
        if found is None:
            raise BadRequest(Message("this application does not accept the identity provider in the link"))
        return found

    def default_for(self, candidates: Providers, session: SessionRecord | None, cookie_headers: Iterable[bytes]) -> ProviderConfig | None:
        """Return the provider to use without a prompt, or None.

        It is the only candidate, the provider of the session for a step-up, or the last one used in this browser.
        """
        if len(candidates) == 1:
            return candidates[0]
        before = session.provider if session is not None else self._remembered_id(cookie_headers)
        return next((provider for provider in candidates if provider.id == before), None)

    def by_email_domain(self, candidates: Providers, address: str) -> ProviderConfig | None:
        """Return the only provider that is authoritative for the address's domain, None if there is none or more than one."""
        domain = address.rpartition("@")[2].strip().lower() if len(address) <= MAX_EMAIL_LENGTH else ""
        found = [provider for provider in candidates if provider.domains is not None and domain and provider.owns_domain(domain)]
        return found[0] if len(found) == 1 else None

    def remember_cookies(self, id: str) -> list[str]:
        """Return the Set-Cookie values after a sign-in at this provider. A selection without a sign-in is not remembered."""
        return [self._set(id, COOKIE_MAX_AGE)] if len(self._providers) > 1 else []

    def clear_cookies(self) -> list[str]:
        """Return the Set-Cookie values for a sign-out, because the next user may belong to another provider."""
        return [self._set("", 0)] if len(self._providers) > 1 else []

    def _remembered_id(self, cookie_headers: Iterable[bytes]) -> str:
        found = {value for name, value in cookies.parse(cookie_headers) if name == self._cookie.encode()}
        return found.pop().decode("ascii", "replace") if len(found) == 1 else ""

    def _set(self, value: str, max_age: int) -> str:
        return cookies.set_cookie(self._cookie, value, max_age=max_age, secure=self._secure)
