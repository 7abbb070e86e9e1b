"""Key file of a cloud service account. Errors are ValueErrors that contain nothing of the file."""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from foundation.values import Url, is_encrypted_or_local, parse_url


@dataclass(frozen=True, slots=True)
class CloudServiceAccount:
    email: str
    key_id: str
    token_url: Url
    private_key: RSAPrivateKey = field(repr=False)


def service_account(content: bytes) -> CloudServiceAccount:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("is not the JSON of a service account's key file") from None
    if not isinstance(document, dict) or document.get("type") != "service_account":
        raise ValueError('must be the key file of a service account: JSON with "type": "service_account"')
    return CloudServiceAccount(
        email=_text(document, "client_email"),
        key_id=_text(document, "private_key_id"),
        token_url=_token_url(_text(document, "token_uri")),
        private_key=_private_key(_text(document, "private_key")),
    )


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"the service account's key file lacks {name}")
    return value


def _token_url(written: str) -> Url:
    """Parse the token URL. Its server issues the tokens that gate sends to upstreams."""
    try:
        url = parse_url(written)
    except ValueError as error:
        raise ValueError(f"token_uri of the service account {error}") from None
    if not is_encrypted_or_local(url.scheme, url.host):
        raise ValueError("token_uri of the service account must be https")
    return url


# OpenSSL checks the primes on each load, which takes 100 ms, and reloads parse the key again.
@lru_cache(maxsize=4)
def _private_key(pem: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("private_key of the service account is not valid PEM") from None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("private_key of the service account must be an RSA key")
    return key
