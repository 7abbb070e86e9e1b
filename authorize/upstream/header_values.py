"""Header values: whatever a provider says, as one line of printable ASCII."""

import re
from typing import Any
from urllib.parse import quote

from foundation.claim_values import ListedValues

_AT_ENDS = re.compile(r"\A +| +\Z")
_PRINTABLE_BUT_PERCENT = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def header_value(value: Any) -> bytes:
    """One line of printable ASCII.

    Text that is not is percent-encoded as UTF-8 (its own "%" too), so that no claim can end a header or begin another.  A comma
    inside an element of a list becomes "%2C": a group named "sales,admin" must not read as two.  Blanks at either end, which every
    reader takes away (RFC 9110 5.5), become "%20": "admin " must not read as "admin".
    """
    if isinstance(value, list | ListedValues):
        return b",".join(_element(item).replace(b",", b"%2C") for item in value)
    # The claim of another tuple is one text such as "Doe, Jane".
    return _element(value[0] if isinstance(value, tuple) else value)


def _element(value: Any) -> bytes:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not (text.isascii() and text.isprintable()):
        text = quote(text, safe=_PRINTABLE_BUT_PERCENT, errors="replace")
    return _AT_ENDS.sub(lambda blanks: "%20" * len(blanks[0]), text).encode("ascii")
