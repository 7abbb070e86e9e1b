"""Tokens of the authorization server: creation, parsing and verification.

    gate_at_<session id>.<43 random characters>                            access token
    gate_rt_<session id>.<43 random characters>.<22 characters of a MAC>   refresh token
    gate_st_<record id>.<43 random characters>                             access token of a service account
    gate_ac_<session id>.<43 random characters>                            authorization code
    gate_dc_<record id>.<43 random characters>                             device code

The id makes a check one look-up. Records have hashes only. The MAC proves that gate issued a refresh token that is no longer
current, so that its reuse is noticed however long ago it was replaced (RFC 9700 4.14.2).
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum

from foundation.crypto.sealing import CryptoConfig, derive_keys, to_text

SECRET_BYTES = 32
MAC_BYTES = 16
_ID = r"[A-Za-z0-9_-]{43}"


class AgentTokenKind(StrEnum):
    """Kind of a token: its prefix."""

    ACCESS = "gate_at_"
    REFRESH = "gate_rt_"
    SERVICE_ACCOUNT = "gate_st_"
    CODE = "gate_ac_"
    DEVICE_CODE = "gate_dc_"


ACCESS_TOKEN_PREFIXES = (AgentTokenKind.ACCESS.value, AgentTokenKind.SERVICE_ACCOUNT.value)
_PATTERNS = {
    kind: re.compile(kind.value + rf"({_ID})\.({_ID})" + (r"\.([A-Za-z0-9_-]{22})" if kind is AgentTokenKind.REFRESH else ""), re.ASCII)
    for kind in AgentTokenKind
}


@dataclass(frozen=True, slots=True)
class NewToken:
    """Token that was just made, for the client, and its hash, for the record."""

    token: str
    hash: str

    def __repr__(self) -> str:
        return "<NewToken>"


def new_token(kind: AgentTokenKind, session_id: str) -> NewToken:
    """Return a new access token or authorization code of a session, or a token or device code of another record."""
    token = f"{kind.value}{session_id}.{to_text(secrets.token_bytes(SECRET_BYTES))}"
    return NewToken(token, hash_token(token))


def parse_session_id(kind: AgentTokenKind, token: str) -> str:
    """Return the session or record id in a token of this kind, or "" if it is malformed. Its secret is not checked: see `matches_hash`."""
    match = _PATTERNS[kind].fullmatch(token)
    return match[1] if match is not None else ""


def hash_token(token: str) -> str:
    """Return the hash that is stored. A fast hash suffices for 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()


# enforcement-point: Authorization server: Token comparison
def matches_hash(token: str, stored_hash: str) -> bool:
    return hmac.compare_digest(hash_token(token), stored_hash)


class RefreshTokens:
    """Refresh tokens, with the MAC of `cookie_secret`."""

    def __init__(self, options: CryptoConfig):
        self._keys = derive_keys(options.cookie_secret, "agent refresh token")

    def __repr__(self) -> str:
        return "<RefreshTokens>"

    def new(self, session_id: str) -> NewToken:
        body = f"{AgentTokenKind.REFRESH.value}{session_id}.{to_text(secrets.token_bytes(SECRET_BYTES))}"
        token = f"{body}.{_mac(self._keys[0], body)}"
        return NewToken(token, hash_token(token))

    # enforcement-point: Authorization server: Reuse of a refresh token
    def is_genuine(self, token: str, session_id: str) -> bool:
        """Return whether gate issued this refresh token for this session, current or not."""
        if not session_id or parse_session_id(AgentTokenKind.REFRESH, token) != session_id:
            return False
        body, _, mac = token.rpartition(".")
        return any(hmac.compare_digest(_mac(key, body), mac) for key in self._keys)


def _mac(key: bytes, body: str) -> str:
    return to_text(hmac.digest(key, body.encode(), "sha256")[:MAC_BYTES])
