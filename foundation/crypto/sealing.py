"""Sealing of small values: authenticated encryption of everything that gate sends through a browser."""

import base64
import binascii
import json
import os
from collections.abc import Sequence
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from foundation.errors import SealError
from foundation.values import SecretBytes, Url

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
MAX_SEALED = 8192


# enforcement-point: Services and certificates: Key derivation
def derive_key(secret: bytes, purpose: str) -> bytes:
    """Derive a 256-bit key for one purpose (HKDF-SHA256, RFC 5869), so that no two uses of a secret share a key."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"gate/1/" + purpose.encode()).derive(secret)


def derive_keys(secrets: Sequence[bytes], purpose: str) -> tuple[bytes, ...]:
    """Derive a key from each secret, in order: the first seals new values, all of them open existing ones."""
    return tuple(derive_key(secret, purpose) for secret in secrets)


def to_text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def from_text(text: str) -> bytes:
    """Decode unpadded URL-safe base64. Raise ValueError for any but the canonical encoding."""
    try:
        value = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ValueError("not URL-safe base64") from error
    if to_text(value) != text:
        raise ValueError("not the canonical spelling")
    return value


# enforcement-point: Sign-in and sign-out: Sealed values that pass through a browser
class Sealer:
    """AES-256-GCM with keys for one purpose. The audience is associated data; the expiry is part of the plaintext.

    The first secret seals, and all of them open, so secrets can be rotated without invalidating values.

    Nonces are 96 random bits from the operating system, so they stay unique across forks and restarts (NIST SP 800-38D 8.2.2:
    up to 2^32 values per key).
    """

    def __init__(self, secrets: Sequence[bytes], purpose: str):
        self.purpose = purpose
        self._ciphers = [AESGCM(key) for key in derive_keys(secrets, purpose)]

    def __repr__(self) -> str:
        return f"<Sealer {self.purpose}>"

    def seal(self, claims: dict[str, Any], *, audience: str, expires_at: float) -> str:
        """Seal `claims` (JSON values) into URL-safe text for an audience, valid until `expires_at` (Unix seconds)."""
        nonce = os.urandom(NONCE_BYTES)
        plain = json.dumps([expires_at, claims], separators=(",", ":")).encode()
        return to_text(nonce + self._ciphers[0].encrypt(nonce, plain, audience.encode()))

    def open(self, sealed: str, *, audience: str, now: float) -> dict[str, Any]:
        """Return the claims. Raise SealError, with one message for all causes, if the value was not sealed for this audience.

        A value of another release may lack a claim; then `Claims` raises SealError on access.
        """
        if not NONCE_BYTES + TAG_BYTES < len(sealed) <= MAX_SEALED:
            raise SealError("this token is not valid")
        try:
            box = from_text(sealed)
        except ValueError as error:
            raise SealError("this token is not valid") from error
        plain = decrypt(self._ciphers, box, audience.encode())
        expires, claims = json.loads(plain)
        if now >= expires:
            raise SealedValueExpired("this token has expired")
        return Claims(claims)


def decrypt(ciphers: Sequence[AESGCM], box: bytes, associated: bytes) -> bytes:
    """Decrypt a box of nonce, ciphertext and tag. Raise SealError if no cipher opens it."""
    for cipher in ciphers:
        try:
            return cipher.decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], associated)
        except (ValueError, InvalidTag):
            continue
    raise SealError("this token is not valid")


class Claims(dict[str, Any]):
    """Claims of a sealed value, which another release of gate may have sealed."""

    def __missing__(self, name: str) -> Any:
        raise SealError("this token was made by another release of gate")


class SealedValueExpired(SealError):
    """A genuine sealed value for this audience that has expired."""


class CryptoConfig(Protocol):
    """Configuration values that this package uses. The keys of `cookie_secret` and `shared_secret` are 32 bytes each, newest first."""

    cookie_name: str
    cookie_secret: tuple[SecretBytes, ...]
    cookie_secure: bool
    cookie_domain: str | None
    cookie_http_only: bool
    shared_secret: tuple[SecretBytes, ...]
    authenticate_service_url: Url
    signing_key: SecretBytes | None
    signing_key_algorithm: str
