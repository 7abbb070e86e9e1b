"""Header names that only gate may write to an upstream."""

from proxy.envoy import envoy_request_head as envoy_head
from proxy.envoy.resources import ext_authz_filter, internal_headers
from proxy.listener.http1.request_head import IGNORED_HEADER_NAMES
from proxy.rewriting import reserved_headers

INTERNAL = [
    "X-Gate-Jwt-Assertion",
    "X-Gate-Claim-Email",
    "X-Gate-Claim-Never-Configured",
    "X-Gate-Session-Id",
    "X-Gate-Route-Id",
    "X-Gate-Set-Cookie",
    "X-Envoy-Original-Path",
    "X-Envoy-Expected-Rq-Timeout-Ms",
    "Daphne-Root-Path",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-User",
    "X-Forwarded-Client-Cert",
    "Forwarded",
    "X-Real-Ip",
    "X-Original-Url",
    "X-Original-Uri",
    "X-Original-Method",
    "X-Original-Host",
    "X-Rewrite-Url",
    "X-Rewrite-Uri",
    "X-Override-Url",
    "X-Ms-Original-Url",
    "X-Waws-Unencoded-Url",
    "X-Http-Method-Override",
    "X-Http-Method",
    "X-Method-Override",
    "X-Override-Method",
    "X-Http-Verb",
    "X-Method",
    "X-Http-Path-Info",
    "X-Proxy-Url",
    "X-Host",
    "X-Http-Host-Override",
    "X-Script-Name",
    "Script-Name",
    "Path-Info",
    "Impersonate-User",
    "Impersonate-Group",
    "Impersonate-Extra-Scopes",
    "Proxy",
    "X-Request-Id",
]

_OF_ENVOY = (
    internal_headers.TOKEN,
    internal_headers.SCRIPT,
    internal_headers.LOCAL_REPLY_REASON,
    internal_headers.NO_CLUSTER,
    *internal_headers.INTERNAL_HEADERS,
    *ext_authz_filter._ENVOY_HEADERS,
)
_PREFIXES = (*reserved_headers._INTERNAL_PREFIXES, *reserved_headers._DASHLESS_PREFIXES)


def dropped_names() -> list[str]:
    """Return every name that the code drops, folds or ignores, with hyphens, with underscores and with dots."""
    known: set[bytes] = set().union(
        IGNORED_HEADER_NAMES,
        reserved_headers.HOP_BY_HOP,
        reserved_headers.FORWARDED_HEADER_NAMES,
        reserved_headers._INTERNAL_NAMES,
        reserved_headers._DASHLESS_NAMES,
        reserved_headers._OVERRIDE_NAMES,
        (prefix + b"x" for prefix in _PREFIXES),
        (name.encode() for name in _OF_ENVOY),
        envoy_head._CHECK_HEADERS,
        (envoy_head.HEADERS_TO_REMOVE, envoy_head._XFCC),
    )
    plain = sorted({name.decode() for name in known})
    spelled = [*plain, *(name.replace("-", "_") for name in plain), *(name.replace("-", ".") for name in plain)]
    return [
        name
        for name in dict.fromkeys(spelled)
        if reserved_headers.is_reserved_header(reserved_headers.fold(name.encode())) or name in plain
    ]
