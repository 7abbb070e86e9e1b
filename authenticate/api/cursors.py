"""API cursors: the position in a list after which the next page begins.

A cursor is not a credential.  One of another list is refused.
"""

import base64
import binascii
import json

from authenticate.api.api_problems import ApiProblem, invalid_input

MAX_KEY_LENGTH = 340


def encode_cursor(list_name: str, *keys: str) -> str:
    """Return the cursor after the item with these keys."""
    content = json.dumps([list_name, *keys], ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decode_cursor(list_name: str, cursor: str | None, count: int = 1) -> tuple[str, ...] | None:
    """Return the keys of a cursor of this list, or None without a cursor.

    Raises ApiProblem 400 if the cursor is malformed or of another list.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        content = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
    except (ValueError, binascii.Error, RecursionError):
        raise _invalid_cursor() from None
    if not isinstance(content, list) or len(content) != count + 1 or not all(isinstance(each, str) for each in content):
        raise _invalid_cursor()
    if content[0] != list_name or not all(_is_key(each) for each in content[1:]):
        raise _invalid_cursor()
    return tuple(content[1:])


def _is_key(text: str) -> bool:
    """Return whether a store and a database accept this text in a query."""
    return len(text) <= MAX_KEY_LENGTH and "\0" not in text and text.encode(errors="replace").decode() == text


def _invalid_cursor() -> ApiProblem:
    return invalid_input("query", [("cursor", "is not valid for this list")])
