"""Signed, expiring URLs: how a route host and the authenticate service tell each other where a browser comes from."""

import hashlib
import hmac
from urllib.parse import parse_qsl, urlencode, urlsplit

from foundation.crypto.sealing import CryptoConfig, derive_keys, to_text
from foundation.errors import SealError

LIFETIME = 300
LEEWAY = 60

ISSUED, EXPIRY, SIGNATURE = "gate_issued", "gate_expiry", "gate_signature"


class UrlExpired(SealError):
    """A signed URL that is ours and unchanged, but too old; `params` may be used to offer a fresh start, after the usual checks."""

    def __init__(self, params: dict[str, str]):
        self.params = params
        super().__init__("this link has expired")


# enforcement-point: Sign-in and sign-out: Signed URLs
class UrlSigner:
    """HMAC-SHA256 under keys of `shared_secret` over the URL with its query sorted by key: the first signs, all verify."""

    def __init__(self, options: CryptoConfig):
        self._keys = derive_keys(options.shared_secret, "signed URL")

    def sign(self, url: str, params: dict[str, str], now: float) -> str:
        """`url` (without a query) with `params` and a signature that holds for five minutes, plus one of leeway."""
        signed = {**params, ISSUED: str(int(now)), EXPIRY: str(int(now) + LIFETIME)}
        return f"{_join(url, signed)}&{SIGNATURE}={_signature(self._keys[0], url, signed)}"

    def verify(self, url: str, now: float) -> dict[str, str]:
        """The params; SealError where anything in the URL was changed, UrlExpired where it is only too old."""
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
    # A key given twice has no one meaning (parameter pollution), so it can't have been signed by us.
    if len(params) != len(pairs):
        raise SealError("this link is invalid or was modified")
    return f"{parts.scheme}://{parts.netloc}{parts.path}", params
