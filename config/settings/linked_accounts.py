"""Linked accounts: accounts at several providers that belong to one user (`link_by` of the entries)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from config.validation import Finding

if TYPE_CHECKING:
    from config.options import Options

# Value of `link_by`, prefix of linked users' ids, and issuer of linked users.
VERIFIED_EMAIL = "verified_email"


def check_links(settings: "Options") -> Iterator[Finding]:
    """A verified address links two accounts only if both providers may assert it."""
    entries = settings.identity_providers or ()
    for index, entry in enumerate(entries):
        others = {domain for other in entries if other is not entry and other.link_by for domain in other.domains or ()}
        if entry.link_by and others.isdisjoint(entry.domains or ()):
            message = "has no effect: no other provider with `link_by` has one of its `domains`"
            yield ("identity_providers", index, "link_by"), message
