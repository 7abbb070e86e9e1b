"""Contact of the people who help: an e-mail address or the address of a page."""

import re
from typing import Annotated, Any

from config.fields.basic_types import text
from config.fields.field_type import TEXT, FieldType
from foundation.values import parse_url

# Enough for a mailbox that people write to, and nothing that a URL would read as more (RFC 6068 2).
_MAILBOX = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")


def contact(value: Any) -> str:
    """URL of the contact, `mailto:` for an e-mail address."""
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
