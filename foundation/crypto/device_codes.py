"""Codes of a device authorization (RFC 8628): the user code that a user enters, and the device code that the device polls with.

A user code is too short for a plain hash, so the id of its record is a MAC with a key of `cookie_secret`.
"""

import hmac
import re
import secrets
from dataclasses import dataclass

from foundation.crypto.agent_token import AgentTokenKind, NewToken, new_token
from foundation.crypto.sealing import CryptoConfig, derive_keys, to_text

# RFC 8628 6.1: without vowels, so that no code is a word; 34 bits.
USER_CODE_CHARACTERS = "BCDFGHJKLMNPQRSTVWXZ"
MAX_TYPED = 40
_GROUP = 4
_USER_CODE = re.compile(rf"[{USER_CODE_CHARACTERS}]{{{2 * _GROUP}}}")


@dataclass(frozen=True, slots=True)
class NewDeviceCodes:
    """Codes that were just made, and the id of their record."""

    user_code: str
    device_code: NewToken
    record_id: str

    def __repr__(self) -> str:
        return "<NewDeviceCodes>"


class DeviceCodes:
    """Device and user codes, with the MAC of `cookie_secret`."""

    def __init__(self, options: CryptoConfig):
        self._keys = derive_keys(options.cookie_secret, "device user code")

    def __repr__(self) -> str:
        return "<DeviceCodes>"

    def new(self) -> NewDeviceCodes:
        code = "".join(secrets.choice(USER_CODE_CHARACTERS) for _ in range(2 * _GROUP))
        id = _record_id(self._keys[0], code)
        return NewDeviceCodes(_format(code), new_token(AgentTokenKind.DEVICE_CODE, id), id)

    def record_ids(self, user_code: str) -> tuple[str, ...]:
        """Return the ids that the record of a normalized user code can have, one for each key."""
        return tuple(_record_id(key, user_code.replace("-", "")) for key in self._keys)


def normalize_user_code(typed: str) -> str:
    """Return the user code that a user typed, in its display form; "" if it cannot be one.

    Case, spaces and hyphens are ignored (RFC 8628 6.1).
    """
    code = re.sub(r"[\s-]", "", typed).upper() if len(typed) <= MAX_TYPED and typed.isascii() else ""
    return _format(code) if _USER_CODE.fullmatch(code) else ""


def _format(code: str) -> str:
    return f"{code[:_GROUP]}-{code[_GROUP:]}"


def _record_id(key: bytes, code: str) -> str:
    return to_text(hmac.digest(key, code.encode(), "sha256"))
