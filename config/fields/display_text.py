"""Line of text for people: short, and of characters that can be seen."""

from typing import Any

from config.fields.basic_types import text
from config.fields.field_type import SettingReader
from foundation.web.plain_text import is_plain


def line(longest: int) -> SettingReader:
    """Reader of one line of text for people."""

    def read(value: Any) -> str:
        written = text(value).strip()
        if len(written) > longest:
            raise ValueError(f"must be at most {longest} characters long")
        if not is_plain(written):
            raise ValueError("must not contain invisible or bidirectional control characters")
        return written

    return SettingReader("string", read, {"type": "string", "pattern": r"\S"})
