"""Site facts: what the operator says about this site on every page of ours."""

from dataclasses import dataclass
from urllib.parse import quote

from foundation.web.brand import NO_BRAND, Brand
from foundation.web.message import Message

Links = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """Site facts of the configuration in force.  `contact` is a mailto: or https: URL, `headers` are those of every answer of ours."""

    contact: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    brand: Brand = NO_BRAND

    def help_links(self, host: str, request_id: str) -> Links:
        """Whom to write to about this request, as links of a page; by mail with words that say which it was."""
        if not self.contact:
            return ()
        about = quote(f"Help with {host or 'this site'}, request {request_id}", safe="")
        return ((Message("Get help"), f"{self.contact}?subject={about}" if self.contact.startswith("mailto:") else self.contact),)


NO_SITE_FACTS = SiteFacts()
