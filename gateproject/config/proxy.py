"""The settings of the data plane: time, headers, trusted peers."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from pydantic import Field

from gateproject.config.fields import Bool, Duration, Networks
from gateproject.config.headers import ClaimNames, ResponseHeaders
from gateproject.config.validation import Settings

DEFAULT_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "SAMEORIGIN",
        "X-XSS-Protection": "1; mode=block",
        "Strict-Transport-Security": "max-age=31536000; includeSubDomains; preload",
    }
)


class ProxySettings(Settings):
    default_upstream_timeout: Duration = Field(timedelta(seconds=30), description="For a route without `timeout`; 0 is no limit.")
    headers: ResponseHeaders = Field(
        default_factory=lambda: dict(DEFAULT_HEADERS), description="Response headers that replace the upstream's; `disable: true` for none."
    )
    jwt_claims_headers: ClaimNames = Field((), description="Claims that upstreams receive as X-Gate-Claim-{Name}.")
    skip_xff_append: Bool = Field(False, description="Leaves the client's address out of X-Forwarded-For.")
    trusted_proxies: Networks = Field((), description="Peers whose X-Forwarded-* headers are believed.")
