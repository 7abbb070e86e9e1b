"""Support contact: an email address or the URL of a page."""

import re
from typing import Annotated, Any

from config.fields.basic_types import text
from config.fields.field_type import TEXT, FieldType
from foundation.values import parse_url

# Common mailboxes, without characters that have a meaning in a URL (RFC 6068 2).
_MAILBOX = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")


def contact(value: Any) -> str:
    """Return the URL of the contact: `mailto:` for an email address."""
    written = text(value).strip().removeprefix("mailto:")
    if _MAILBOX.fullmatch(written):
        return f"mailto:{written}"
    try:
        url = parse_url(written)
    except ValueError:
        url = None
    if url is None or url.scheme not in ("https", "http"):
        raise ValueError("must be an e-mail address or an https URL")
    return str(url)


Contact = Annotated[str, FieldType("e-mail address or URL", contact, TEXT)]
