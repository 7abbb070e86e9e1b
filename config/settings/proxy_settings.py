"""Settings of the data plane: upstream timeouts, headers and trusted proxies."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from config.fields.basic_types import Bool, Duration, Integer, Networks, ServiceUrl, TextList
from config.fields.field_type import choice_type
from config.fields.header_fields import ClaimNames, ResponseHeaders
from config.validation import Finding, Rule, Settings
from foundation.values import parse_ip

if TYPE_CHECKING:
    from config.options import Options

DEFAULT_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "SAMEORIGIN",
        "X-XSS-Protection": "1; mode=block",
        "Strict-Transport-Security": "max-age=31536000; includeSubDomains; preload",
    }
)


# Value of `dns_lookup_family` -> IP version that it allows.
DNS_FAMILIES: Mapping[str, int | None] = MappingProxyType({"AUTO": None, "V4_ONLY": 4, "V6_ONLY": 6})

MAX_FORWARD_AUTH_CACHE = timedelta(minutes=5)
_HOST = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?|[0-9a-f:]+:[0-9a-f:.]*", re.ASCII | re.IGNORECASE)


def _check_forward_auth_host(settings: "Options") -> Iterator[Finding]:
    url = settings.forward_auth_url
    if settings.forward_auth_cache > MAX_FORWARD_AUTH_CACHE:
        yield ("forward_auth_cache",), "must be at most 5m: revoked access lasts that much longer"
    if url is None:
        if settings.forward_auth_cache:
            yield ("forward_auth_cache",), "needs forward_auth_url"
        return
    message = "requires a dedicated host, on every port: all its paths serve front proxies"
    if url.host == settings.authenticate_service_url.host:
        yield ("forward_auth_url",), f"is the host of authenticate_service_url. Forward auth {message}"
    for index, route in enumerate(settings.policy):
        if route.from_.host == url.host:
            yield ("policy", index, "from"), f"is the host of forward_auth_url, which {message}"


def _check_authenticate_host(settings: "Options") -> Iterator[Finding]:
    """The port does not matter: cookies ignore it (RFC 6265 8.5)."""
    for index, route in enumerate(settings.policy):
        if route.from_.host == settings.authenticate_service_url.host:
            yield (
                ("policy", index, "from"),
                (
                    "is the host of authenticate_service_url. Use another host: otherwise pages of the "
                    "application could act as gate's own pages, including the admin"
                ),
            )


def _check_redirect_whitelist(settings: "Options") -> Iterator[Finding]:
    for index, host in enumerate(settings.programmatic_redirect_domain_whitelist):
        if not _HOST.fullmatch(host):
            yield ("programmatic_redirect_domain_whitelist", index), "must be a host name or an address: no scheme, port, path or wildcard"


def _check_service_urls(settings: "Options") -> Iterator[Finding]:
    version = DNS_FAMILIES[settings.dns_lookup_family]
    for index, route in enumerate(settings.policy if version else ()):
        for upstream in route.to:
            address = parse_ip(upstream.url.host.strip("[]"))
            if address is not None and address.version != version:
                yield ("policy", index, "to"), f"is an IPv{address.version} address, and dns_lookup_family is {settings.dns_lookup_family}"


def _check_envoy_data_plane(settings: "Options") -> Iterator[Finding]:
    if settings.data_plane != "envoy":
        return
    if settings.services not in ("all", "proxy"):
        yield ("data_plane",), "envoy requires a service that forwards traffic: all or proxy"


def _check_upstream_http2(settings: "Options") -> Iterator[Finding]:
    for index, route in enumerate(settings.policy) if settings.data_plane == "embedded" else ():
        if route.upstream_http2:
            yield ("policy", index, "upstream_http2"), "needs data_plane: envoy"


def _check_http3(settings: "Options") -> Iterator[Finding]:
    if not settings.http3:
        return
    if settings.data_plane != "envoy":
        yield ("http3",), "needs data_plane: envoy"
    if settings.insecure_server:
        yield ("http3",), "requires TLS terminated by gate; not available with insecure_server"
    if settings.use_proxy_protocol:
        yield ("http3",), "cannot be combined with use_proxy_protocol, which is for TCP only"


class ProxySettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (
        _check_envoy_data_plane,
        _check_http3,
        _check_upstream_http2,
        _check_forward_auth_host,
        _check_authenticate_host,
        _check_redirect_whitelist,
        _check_service_urls,
    )

    data_plane: Annotated[str, choice_type("embedded", "envoy")] = Field(
        "embedded",
        description="Component that forwards traffic: gate (`embedded`) or an Envoy child process (`envoy`).",
        examples=["envoy"],
    )
    envoy_max_connections: Integer = Field(
        20_000,
        description="Maximum number of client connections; others are refused. Needs `data_plane: envoy`.",
        examples=[20_000],
    )
    envoy_max_heap: Integer = Field(
        1024,
        description="Maximum heap of Envoy in MiB. From 90 % on, Envoy resets the largest streams; near the limit it refuses "
        "requests, then connections. Needs `data_plane: envoy`.",
        examples=[1024],
    )
    http3: Bool = Field(False, description="Also serves HTTP/3, on the UDP port of `address`. Needs `data_plane: envoy`.", examples=[True])
    default_upstream_timeout: Duration = Field(
        timedelta(seconds=30), description="Timeout of routes without `timeout`. `0` disables it.", examples=["30s"]
    )
    dns_lookup_family: Annotated[str, choice_type(*DNS_FAMILIES)] = Field(
        "AUTO", description="Address family that upstream host names are resolved to.", examples=["V4_ONLY"]
    )
    forward_auth_cache: Duration = Field(
        timedelta(0),
        description="Time for which front proxies may cache an allow decision, at most 5m. Revoked access can last that much longer.",
        examples=["5s"],
    )
    forward_auth_url: ServiceUrl | None = Field(
        None,
        description="URL of the forward-auth endpoint, on a dedicated host: `<url>/verify?uri=<original URL>`.",
        examples=["https://fwdauth.example.com"],
    )
    headers: ResponseHeaders = Field(
        default_factory=lambda: dict(DEFAULT_HEADERS),
        description="Response headers that gate sets on every proxied response, in place of the upstream's. `disable: true` sets none.",
        examples=[
            {"X-Frame-Options": "DENY"},
            "X-Frame-Options:DENY,Referrer-Policy:same-origin",
            '{"X-Frame-Options": "DENY"}',
            {"disable": True},
        ],
    )
    health_paths_on_routes: Bool = Field(
        True,
        description="Serves gate's `/ping` and `/healthz` on route hosts. `false` forwards both there under the route's policy. "
        "Other hosts, IP addresses and `http_redirect_addr` always serve them.",
        examples=[False],
    )
    jwt_claims_headers: ClaimNames = Field(
        (),
        description="Claims that upstreams receive as unsigned `X-Gate-Claim-<Name>` headers.",
        examples=[["email", "groups", "user"]],
    )
    programmatic_redirect_domain_whitelist: TextList = Field(
        ("localhost",),
        description="Hosts that programmatic login may redirect to with a token: complete names, any port. `localhost` includes "
        "loopback addresses.",
        examples=[["localhost", "tool.example.com"]],
    )
    refresh_cooldown: Duration = Field(
        timedelta(minutes=5), description="Minimum time between two manual refreshes of a session.", examples=["5m"]
    )
    skip_xff_append: Bool = Field(False, description="Does not append the client address to `X-Forwarded-For`.", examples=[True])
    trusted_proxies: Networks = Field(
        (),
        description="Networks of front proxies whose `X-Forwarded-*`, `Forwarded` and `X-Original-URL` headers gate uses. Those of "
        "other peers are removed.",
        examples=[["10.0.0.0/8"]],
    )
