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
    default_upstream_timeout: Duration = Field(
        timedelta(seconds=30), description="For a route without `timeout`; 0 is no limit.", examples=["30s"]
    )
    headers: ResponseHeaders = Field(
        default_factory=lambda: dict(DEFAULT_HEADERS),
        description="Response headers that replace the upstream's. A map, `Name:value` pairs with commas, or a JSON object; "
        "`disable: true` for none.",
        examples=[
            {"X-Frame-Options": "DENY"},
            "X-Frame-Options:DENY,Referrer-Policy:same-origin",
            '{"X-Frame-Options": "DENY"}',
            {"disable": True},
        ],
    )
    jwt_claims_headers: ClaimNames = Field(
        (), description="Claims that upstreams receive as `X-Gate-Claim-{Name}`. Not signed.", examples=[["email", "groups", "user"]]
    )
    skip_xff_append: Bool = Field(False, description="Leaves the client's address out of `X-Forwarded-For`.", examples=[True])
    trusted_proxies: Networks = Field(
        (), description="Peers whose `X-Forwarded-*` and `X-Original-URL` headers are believed.", examples=[["10.0.0.0/8"]]
    )
