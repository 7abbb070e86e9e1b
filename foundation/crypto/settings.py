"""Settings of cookies, tokens and keys: `config.options.Options` has them all."""

from typing import Protocol

from foundation.values import SecretBytes, Url


class CryptoSettings(Protocol):
    """Values of the configuration; the keys of `cookie_secret` and `shared_secret` are 32 bytes each, the newest first."""

    cookie_name: str
    cookie_secret: tuple[SecretBytes, ...]
    cookie_secure: bool
    cookie_domain: str | None
    cookie_http_only: bool
    shared_secret: tuple[SecretBytes, ...]
    authenticate_service_url: Url
    signing_key: SecretBytes | None
    signing_key_algorithm: str
