"""API cursors: the place in a list behind which the next page begins.  No credential; one that is not of this list is refused."""

import base64
import binascii
import json

from authenticate.api.api_problems import ApiProblem, invalid_input

MAX_KEY_LENGTH = 340


def encode_cursor(list_name: str, *keys: str) -> str:
    """The cursor behind the item of these keys."""
    said = json.dumps([list_name, *keys], ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(said).rstrip(b"=").decode()


def decode_cursor(list_name: str, cursor: str | None, count: int = 1) -> tuple[str, ...] | None:
    """Keys of a cursor of this list; None where the list begins.  ApiProblem."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        said = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
    except (ValueError, binascii.Error, RecursionError):
        raise _not_ours() from None
    if not isinstance(said, list) or len(said) != count + 1 or not all(isinstance(each, str) for each in said):
        raise _not_ours()
    if said[0] != list_name or not all(_is_key(each) for each in said[1:]):
        raise _not_ours()
    return tuple(said[1:])


def _is_key(text: str) -> bool:
    """Whether a store and a database can look for it."""
    return len(text) <= MAX_KEY_LENGTH and "\0" not in text and text.encode(errors="replace").decode() == text


def _not_ours() -> ApiProblem:
    return invalid_input("query", [("cursor", "is not valid for this list")])
