"""Identity headers: the signed assertion and headers of claims that an upstream receives."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import structlog

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.upstream.identity_header_templates import (
    Headers,
    HeaderTemplates,
    IdentityVariables,
    RouteTemplates,
    header_value,
    render_request,
)
from config.options import Options
from config.routes.policy.policy_language import iter_comparisons
from config.routes.route import Route
from config.settings.identity_providers import groups_claims
from foundation.bounded_cache import MIB, BoundedCache, total_length
from foundation.crypto.signing_key import SigningKey
from foundation.email_address import display_name

log = structlog.get_logger(__name__)

ASSERTION = b"x-gate-jwt-assertion"
CLAIM_PREFIX = "x-gate-claim-"
REFRESH_MARGIN_SECONDS = 60.0
# 2 KiB each on average, more if the provider sends more.
MAX_CACHED = 20_000
MAX_CACHE_BYTES = 64 * MIB
LARGE_HEADER_BYTES = 8 * 1024  # many servers accept no more for all headers of a request

# Upstreams display these as the user's name, so they must not equal the address or id of another user (`display_name`).
NAME_CLAIMS = frozenset({"name", "given_name", "family_name", "middle_name", "nickname"})

_NOT_IN_HEADER_NAMES = re.compile(r"[^a-z0-9!#$%&'*+.^_`|~-]")


class CachedHeaders(NamedTuple):
    """Headers of an identity.  `request_templates` still need the request."""

    identity: Identity | None
    headers: Headers
    request_templates: HeaderTemplates


class IdentityHeaders:
    """Cache of headers by session, route and host.  The signing key does not change while this object exists."""

    def __init__(self, options: Options, signing_key: SigningKey):
        self._issuer = options.authenticate_service_url.host_port
        self._names = tuple((name, header_name(name)) for name in options.jwt_claims_headers)
        self.names = identity_header_names(options)
        self._key = signing_key
        self._groups_filter = options.jwt_groups_filter
        self._reserved_claims = frozenset({"email", "name", "groups"}) | groups_claims(options)
        self._released_groups: dict[str, frozenset[str] | None] = {}
        self._templates: dict[str, RouteTemplates] = {}
        self._cached: BoundedCache[tuple[str, str, str], CachedHeaders] = BoundedCache(MAX_CACHED, MAX_CACHE_BYTES)

    def __repr__(self) -> str:
        return f"<IdentityHeaders {len(self._cached)} cached>"

    def headers_for(
        self, request: PolicyRequest, route: CompiledRoute, identity: Identity | None, now: float, request_id: str = ""
    ) -> Headers:
        """Return the identity headers, () unless the route sends identity.

        `identity` is None for anonymous requests on public routes.  Raises NoIdentity if the route's Authorization template needs an
        unknown value.
        """
        if not (templates := self._templates_for(route)).includes_identity:
            return ()
        host_port = request.host_port
        key = (identity.session_id if identity is not None else "", host_port, route.id)
        known = self._cached.get(key)
        # A changed record creates another Identity, so an old assertion is never used for it.
        if known is None or known.identity is not identity or not _is_fresh(identity, now):
            known = self._build(identity, host_port, route, templates)
            self._cached.put(key, known, total_length(*key, known.headers))
        return (
            known.headers if not known.request_templates else known.headers + render_request(known.request_templates, request, request_id)
        )

    def sends_identity(self, route: CompiledRoute) -> bool:
        """Return whether this route's upstream receives identity headers."""
        return self._templates_for(route).includes_identity

    def assertion(self, identity: Identity | None, host_port: str) -> str:
        """Return the signed assertion for the user's own view (`/.gate/jwt`).  Its groups are those that every route may release."""
        releasable = None if self._groups_filter is None else frozenset(self._groups_filter)
        groups = () if identity is None else filter_groups(identity.groups, releasable)
        return self._key.sign(attested_claims(identity, self._issuer, host_port, groups))

    def released_groups(self, route: CompiledRoute, identity: Identity) -> tuple[str, ...]:
        """Return the groups of the user that this route's upstream receives."""
        if route.id not in self._released_groups:
            self._released_groups[route.id] = group_filter(route.route, self._groups_filter)
        return filter_groups(identity.groups, self._released_groups[route.id])

    def _templates_for(self, route: CompiledRoute) -> RouteTemplates:
        if (found := self._templates.get(route.id)) is None:
            found = self._templates[route.id] = RouteTemplates.from_route(route.route)
        return found

    def _build(self, identity: Identity | None, host_port: str, route: CompiledRoute, templates: RouteTemplates) -> CachedHeaders:
        groups = () if identity is None else self.released_groups(route, identity)
        attested = attested_claims(identity, self._issuer, route.route.assertion_audience or host_port, groups)
        provider_claims = identity.claims if identity is not None else {}
        if identity is not None and identity.is_external:
            # Upstreams expect these claims to come from the provider.
            provider_claims = {name: values for name, values in provider_claims.items() if name not in self._reserved_claims}
        provider_claims = {name: values for name, values in provider_claims.items() if name not in NAME_CLAIMS or _are_names(values)}
        all_claims = {**provider_claims, **attested}
        assertion = self._key.sign(attested) if templates.sends_assertion else ""
        headers: Headers = ()
        if route.route.pass_identity_headers:
            claims = (
                (header, header_value(all_claims[name])) for name, header in self._names if all_claims.get(name) not in (None, [], ())
            )
            headers = ((ASSERTION, assertion.encode("ascii")), *claims)
        templated, request_templates = templates.render_user(IdentityVariables(identity, all_claims, assertion))
        headers += templated
        warn_if_large(headers, route, identity)
        return CachedHeaders(identity, headers, request_templates)


def identity_header_names(options: Options) -> tuple[bytes, ...]:
    """Return every header that may carry identity to an upstream."""
    return (ASSERTION, *map(header_name, options.jwt_claims_headers))


def attested_claims(identity: Identity | None, issuer: str, audience: str, groups: Iterable[str]) -> dict[str, Any]:
    """Return the claims of the assertion.

    `iss` and `aud` are the host, or `host:port` if the port is not the default.  Times are in Unix seconds.
    """
    claims: dict[str, Any] = {"iss": issuer, "aud": audience}
    if identity is None:
        return claims
    claims |= {
        "jti": identity.session_id,
        "iat": int(identity.issued_at),
        "exp": int(identity.expires_at),
        "sub": identity.principal_id,
        "user": identity.principal_id,
        "groups": list(groups),
    }
    claims |= {name: value for name, value in (("email", attested_email(identity)), ("name", identity.name)) if value}
    return claims


def _are_names(values: Iterable[Any]) -> bool:
    return all(not isinstance(value, str) or display_name(value) for value in values)


def attested_email(identity: Identity) -> str:
    """Return the directory's address, else the provider's if verified, because upstreams treat it as the user's own."""
    return identity.directory_email or (identity.email if identity.verified_email else "")


def group_filter(route: Route, groups_filter: tuple[str, ...] | None) -> frozenset[str] | None:
    """Return the groups that the upstream may receive, None for all.  Groups that the route's rules name are always released."""
    chosen = groups_filter if route.jwt_groups_filter is None else route.jwt_groups_filter
    return None if chosen is None else frozenset((*chosen, *_named_groups(route)))


def _named_groups(route: Route) -> Iterator[str]:
    for comparison in iter_comparisons(route.blocks):
        if comparison.criterion == "groups" and comparison.operator in ("is", "in"):
            yield from comparison.operand


def filter_groups(groups: tuple[str, ...], released: frozenset[str] | None) -> tuple[str, ...]:
    return groups if released is None else tuple(group for group in groups if group in released)


def warn_if_large(headers: Headers, route: CompiledRoute, identity: Identity | None) -> None:
    """Log a warning if the headers are large.  It occurs once per session and route, because headers are cached."""
    size = sum(len(name) + len(value) + len(": \r\n") for name, value in headers)
    if size > LARGE_HEADER_BYTES:
        log.warning(
            "identity headers exceed 8 KiB",
            bytes=size,
            setting="jwt_groups_filter",
            route=route.id,
            user_id=identity.user_id if identity is not None else "",
        )


def header_name(claim: str) -> bytes:
    """Return the header of a claim, `X-Gate-Claim-<Name>` in lower case.

    Characters that are not allowed in a field name (RFC 9110 5.1) become hyphens.
    """
    return (CLAIM_PREFIX + _NOT_IN_HEADER_NAMES.sub("-", claim.replace("\\.", ".").lower())).encode("ascii")


def _is_fresh(identity: Identity | None, now: float) -> bool:
    return identity is None or now < identity.expires_at - REFRESH_MARGIN_SECONDS
