"""One line of text for pages: limited in length, with visible characters only."""

from typing import Any

from config.fields.basic_types import text
from config.fields.field_type import FieldType
from foundation.web.plain_text import is_sanitized


def display_text(max_length: int) -> FieldType:
    """Return the type of one line of displayed text."""

    def read(value: Any) -> str:
        written = text(value).strip()
        if len(written) > max_length:
            raise ValueError(f"must be at most {max_length} characters long")
        if not is_sanitized(written):
            raise ValueError("must not contain invisible or bidirectional control characters")
        return written

    return FieldType("string", read, {"type": "string", "pattern": r"\S"})
