"""Color of pages, in hexadecimal RGB notation."""

import re
from typing import Annotated, Any

from config.fields.basic_types import text
from config.fields.field_type import FieldType

_HEX = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})")


def color(value: Any) -> str:
    """Return the color as `#rrggbb`."""
    written = text(value).strip().lower()
    if not _HEX.fullmatch(written):
        raise ValueError("must be a color of six hexadecimal digits in quotes, as in '#0b6e4f'")
    return written if len(written) == 7 else "#" + "".join(digit * 2 for digit in written[1:])


Colour = Annotated[str, FieldType("color", color, {"type": "string", "pattern": r"^\s*#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})\s*$"})]
