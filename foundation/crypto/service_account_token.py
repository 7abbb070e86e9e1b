"""Service account token: creation, parsing and verification.

    gate_sa_<name>_<43 random characters><6 of a checksum>

The prefix and the checksum let secret scanners find leaked tokens offline, without false positives.
"""

import hashlib
import hmac
import re
import secrets
import string
import zlib

PREFIX = "gate_sa_"
# Names occur in headers, rules and records, so each has exactly one spelling.
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
SECRET_CHARACTERS = 43  # of 62: 256 bits
CHECKSUM_CHARACTERS = 6
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_TOKEN = re.compile(rf"{PREFIX}({NAME.pattern})_([0-9A-Za-z]{{{SECRET_CHARACTERS + CHECKSUM_CHARACTERS}}})", re.ASCII)


def new_token(name: str) -> str:
    unchecked = f"{PREFIX}{name}_" + "".join(secrets.choice(_ALPHABET) for _ in range(SECRET_CHARACTERS))
    return unchecked + _checksum(unchecked)


def parse_name(token: str) -> str:
    """Return the account name in a token, or "" if the token is malformed. The secret is not checked: see `verify_token`."""
    match = _TOKEN.fullmatch(token)
    if match is None or not hmac.compare_digest(_checksum(token[:-CHECKSUM_CHARACTERS]), token[-CHECKSUM_CHARACTERS:]):
        return ""
    return match[1]


def hash_token(token: str) -> str:
    """Return the hash that is stored. A fast hash suffices for 256 random bits."""
    return hashlib.sha256(b"gate service account\0" + token.encode()).hexdigest()


# enforcement-point: Identity: Service account secret
def verify_token(token: str, stored_hash: str) -> bool:
    return hmac.compare_digest(hash_token(token), stored_hash)


def _checksum(text: str) -> str:
    number, characters = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_CHARACTERS):
        number, digit = divmod(number, len(_ALPHABET))
        characters = _ALPHABET[digit] + characters
    return characters
