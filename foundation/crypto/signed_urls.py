"""Signed, expiring URLs, by which route hosts and the authenticate service pass parameters through the browser."""

import hashlib
import hmac
from urllib.parse import parse_qsl, urlencode, urlsplit

from foundation.crypto.sealing import CryptoConfig, derive_keys, to_text
from foundation.errors import SealError

LIFETIME = 300
LEEWAY = 60

ISSUED, EXPIRY, SIGNATURE = "gate_issued", "gate_expiry", "gate_signature"


class UrlExpired(SealError):
    """A genuine signed URL that has expired; after the usual checks, `params` may be used to start again."""

    def __init__(self, params: dict[str, str]):
        self.params = params
        super().__init__("this link has expired")


# enforcement-point: Sign-in and sign-out: Signed URLs
class UrlSigner:
    """HMAC-SHA256 over the URL with its query sorted by key. The first key of `shared_secret` signs, all of them verify."""

    def __init__(self, options: CryptoConfig):
        self._keys = derive_keys(options.shared_secret, "signed URL")

    def sign(self, url: str, params: dict[str, str], now: float) -> str:
        """Return `url` (without query) with `params` and a signature that is valid for five minutes, plus one of leeway."""
        signed = {**params, ISSUED: str(int(now)), EXPIRY: str(int(now) + LIFETIME)}
        return f"{_join(url, signed)}&{SIGNATURE}={_signature(self._keys[0], url, signed)}"

    def verify(self, url: str, now: float) -> dict[str, str]:
        """Return the params. Raise UrlExpired if a genuine URL has expired, SealError for any other."""
        base, params = _split(url)
        claimed_signature = params.pop(SIGNATURE, "")
        claimed = claimed_signature.encode()
        if not any(hmac.compare_digest(claimed, _signature(key, base, params).encode()) for key in self._keys):
            raise SealError("this link is invalid or was modified")
        issued, expiry = int(params.pop(ISSUED)), int(params.pop(EXPIRY))
        if now > expiry + LEEWAY or now < issued - LEEWAY:
            raise UrlExpired(params)
        return params


def _signature(key: bytes, url: str, params: dict[str, str]) -> str:
    return to_text(hmac.new(key, _join(url, params).encode(), hashlib.sha256).digest())


def _join(url: str, params: dict[str, str]) -> str:
    return f"{url}?{urlencode(sorted(params.items()))}"


def _split(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True, max_num_fields=20, errors="strict")
    except ValueError as error:
        raise SealError("this link is invalid or was modified") from error
    params = dict(pairs)
    # A duplicate key is ambiguous (parameter pollution), so gate never signs one.
    if len(params) != len(pairs):
        raise SealError("this link is invalid or was modified")
    return f"{parts.scheme}://{parts.netloc}{parts.path}", params
