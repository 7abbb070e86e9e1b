"""Linked accounts: which accounts at several providers are one person's (`link_by` of their entries)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from config.validation import Finding

if TYPE_CHECKING:
    from config.options import Options

# The value of `link_by`, what the ids of linked people begin with, and whose people they are where else an issuer is named.
VERIFIED_EMAIL = "verified_email"


def check_links(settings: "Options") -> Iterator[Finding]:
    """By an address two accounts are one person's only where both providers may tell it."""
    entries = settings.identity_providers or ()
    for index, entry in enumerate(entries):
        others = {domain for other in entries if other is not entry and other.link_by for domain in other.domains or ()}
        if entry.link_by and others.isdisjoint(entry.domains or ()):
            message = "has no effect: no other provider with `link_by` has one of its `domains`"
            yield ("identity_providers", index, "link_by"), message
