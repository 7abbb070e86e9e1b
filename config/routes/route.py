"""Route, an entry of `policy`: match, access and target."""

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from config import removed_keys
from config.fields.basic_types import Base64, Base64Secret, Bool, Duration, File, Text, TextList, value_or_file
from config.fields.field_type import TEXT, FieldType, choice_type
from config.fields.header_fields import RemovableRequestHeaders, RemovableResponseHeaders, RequestHeaders, RouteResponseHeaders
from config.routes.policy.criteria import regular_expression
from config.routes.policy.policy_language import ENFORCE, MODES, POLICY_SCHEMA, SHADOW, Block, iter_comparisons, parse_policy
from config.routes.policy.policy_route_keys import key_blocks
from config.routes.rewrites import (
    HeaderName,
    HostSubstitution,
    HostValue,
    PathSubstitution,
    Pattern,
    check_rewrite_pairs,
    check_single_rewrite,
)
from config.routes.route_access_requests import AccessRequestSettings, check_access_requests, upstream_fingerprint
from config.routes.route_bearer_tokens import BearerTokenSettings, check_bearer_token_settings
from config.routes.route_identity_headers import PRESETS, AssertionHeader, check_header_templates, resolve_identity_headers
from config.routes.route_mcp import McpRouteKeys, check_mcp_settings
from config.routes.route_portal import HIDE, SHOW, PortalSettings
from config.routes.route_provider_tokens import ProviderTokenSettings, check_provider_token_exposure
from config.routes.route_redirect import RouteRedirect
from config.routes.route_tcp import MAX_IDLE_TIMEOUT, SCHEME, check_no_http_keys, check_tcp_upstream
from config.routes.route_upstream_oauth import check_upstream_oauth
from config.routes.route_values import AbsolutePath, AcrValues, Claims, Domains, FromUrl, MaxAge, Origins, RewrittenPath
from config.routes.upstreams.load_balancing import LoadBalancingSettings, check_lb_settings
from config.routes.upstreams.upstream_credentials import (
    BasicAuth,
    ClusterToken,
    check_basic_auth_exclusive,
    check_client_certificate,
    check_impersonation_identity,
    check_serverless_upstream,
    cluster_token_in_file,
)
from config.routes.upstreams.upstream_health import EXAMPLE_CHECK, HealthCheck, OutlierDetection, check_health_upstreams
from config.routes.upstreams.upstream_urls import UpstreamUrls
from config.validation import Finding
from foundation.values import SecretBytes, canonical_host


def _check_target(route: "Route") -> Iterator[Finding]:
    if not route.to and route.redirect is None:
        yield (), "needs `to` or `redirect`"


def _check_public_route_has_no_lists(route: "Route") -> Iterator[Finding]:
    names = ("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims")
    lists = [name for name in names if getattr(route, name)]
    if any(block.effect == "allow" for block in route.policy):
        lists.append("`allow` of policy")
    if route.access_requests is not None and not route.access_requests.tools:  # a deny rule may except access to a tool
        lists.append("access_requests")
    for key in ("allow_public_unauthenticated_access", "allow_any_authenticated_user"):
        if lists and getattr(route, key):
            yield (key,), f"allows every request, so {', '.join(lists)} would have no effect. Remove one of them"


def _check_response_headers(route: "Route") -> Iterator[Finding]:
    removed = {name.lower() for name in route.remove_response_headers}
    for name in route.set_response_headers:
        if name.lower() in removed:
            yield ("remove_response_headers",), f"{name} is also set by set_response_headers. Remove one of them"
    if route.redirect is not None:
        for key in ("set_response_headers", "remove_response_headers"):
            if getattr(route, key):
                yield (key,), "has no effect on a redirect, which is a response of gate. Use `headers`"


def _check_websocket_origins(route: "Route") -> Iterator[Finding]:
    if route.websocket_origins and not route.allow_websockets:
        yield ("websocket_origins",), "has no effect without allow_websockets"


def _check_step_up(route: "Route") -> Iterator[Finding]:
    if route.allow_public_unauthenticated_access or route.redirect is not None:
        for key in ("acr_values", "max_age", "identity_providers"):
            if getattr(route, key):
                yield (key,), "has no effect on a route without sign-in"


class Route(BearerTokenSettings, ProviderTokenSettings, LoadBalancingSettings, McpRouteKeys, PortalSettings):
    """An entry of `policy`.

    `path`, `prefix`, `regex` and `prefix_rewrite` keep their configured form; the policy brings them into canonical form.
    """

    RULES = (
        _check_target,
        check_tcp_upstream,
        check_no_http_keys,
        _check_public_route_has_no_lists,
        _check_websocket_origins,
        _check_response_headers,
        _check_step_up,
        check_access_requests,
        check_impersonation_identity,
        check_basic_auth_exclusive,
        check_serverless_upstream,
        check_lb_settings,
        check_rewrite_pairs,
        check_single_rewrite,
        check_client_certificate,
        check_health_upstreams,
        check_bearer_token_settings,
        check_header_templates,
        check_provider_token_exposure,
        check_mcp_settings,
        check_upstream_oauth,
    )
    REMOVED: ClassVar[dict[str, str]] = removed_keys.ROUTE_KEYS

    from_: FromUrl = Field(
        alias="from",
        description="External URL of the application, without a path. A first label `*` matches any single label. "
        "`tcp+https://host:port` tunnels TCP.",
        examples=["https://app.example.com"],
    )
    to: UpstreamUrls = Field(
        (),
        description="URL of the upstream, or several with the same path and an optional weight: `http://a.internal:8000,3`. The "
        "request path is appended.",
        examples=["http://127.0.0.1:8001", ["https://upstream.internal/base/"]],
    )
    redirect: RouteRedirect | None = Field(
        None,
        description="Redirects instead of forwarding. Needs no sign-in.",
        examples=[{"host_redirect": "app.example.com"}],
    )
    path: AbsolutePath | None = Field(None, description="Matches this exact path only.", examples=["/robots.txt"])
    prefix: AbsolutePath | None = Field(None, description="Matches paths that start with this text.", examples=["/admin/"])
    regex: Annotated[str, FieldType("string", regular_expression, TEXT)] | None = Field(
        None, description="Matches paths that match this RE2 expression completely.", examples=["/item/[0-9]+"]
    )
    prefix_rewrite: RewrittenPath | None = Field(
        None, description="Replaces the matched `prefix` or `path` in the forwarded request.", examples=["/"]
    )
    regex_rewrite_pattern: Pattern | None = Field(
        None, description="RE2 expression. Each match in the path is replaced with `regex_rewrite_substitution`.", examples=["^/old/(.*)$"]
    )
    regex_rewrite_substitution: PathSubstitution | None = Field(
        None, description=r"Replacement. `\1` is the first group, `\0` the whole match.", examples=[r"/new/\1"]
    )
    preserve_host_header: Bool = Field(False, description="Forwards the client's `Host` header unchanged.", examples=[True])
    host_rewrite: HostValue | None = Field(None, description="`Host` header sent to the upstream.", examples=["upstream.internal"])
    host_rewrite_header: HeaderName | None = Field(
        None,
        description="Request header whose value becomes the `Host` header. Without it, the client's `Host` is forwarded.",
        examples=["X-Upstream-Host"],
    )
    host_path_regex_rewrite_pattern: Pattern | None = Field(
        None,
        description="RE2 expression; each match in the path is replaced with `host_path_regex_rewrite_substitution`, which gives "
        "the `Host` header.",
        examples=["^/([a-z]+)/.*$"],
    )
    host_path_regex_rewrite_substitution: HostSubstitution | None = Field(
        None,
        description=r"Replacement; the result must be a host. `\1` is the first group.",
        examples=[r"\1.internal"],
    )
    allowed_domains: Domains = Field(
        (),
        description="Allows users with a verified e-mail address in these domains. A match in one `allowed_*` list is sufficient.",
        examples=[["example.com"]],
    )
    allowed_groups: TextList = Field((), description="Allows members of these groups.", examples=[["engineering"]])
    allowed_users: TextList = Field(
        (), description="Allows these users: addresses, `provider/subject` or subjects.", examples=[["alice@example.com"]]
    )
    allowed_idp_claims: Claims = Field(
        default_factory=dict,
        description="Allows users and tokens with these claim values. Write nested claims with dots, and a backslash before a dot "
        "within a name.",
        examples=[{"department": ["finance", "legal"]}],
    )
    policy: Annotated[tuple[Block, ...], FieldType("list of objects", parse_policy, POLICY_SCHEMA)] = Field(
        (),
        description="`allow` and `deny` blocks with criteria. A matching `deny` overrides every `allow`.",
        examples=[[{"deny": {"not": {"source_ip": "10.0.0.0/8"}}}]],
    )
    access_requests: AccessRequestSettings | None = Field(
        None,
        description="Lets denied users request temporary access from approvers.",
        examples=[{"approvers": [{"groups": "payroll-leads"}], "max_duration": "2h"}],
    )
    acr_values: AcrValues = Field(
        (),
        description="Requires one of these authentication context classes (claim `acr`). A user without it signs in again (step-up).",
        examples=[["urn:example:mfa"]],
    )
    max_age: MaxAge | None = Field(
        None,
        description="Maximum age of the authentication at the provider (claim `auth_time`). A user with an older one signs in again.",
        examples=["15m"],
    )
    mode: Annotated[str, choice_type(*MODES)] = Field(
        ENFORCE,
        description="`shadow` evaluates and logs the route, and neither enforces nor forwards.",
        examples=[SHADOW],
    )
    allow_public_unauthenticated_access: Bool = Field(
        False,
        description="Allows every request without sign-in. Cannot be combined with `allowed_*` lists, `allow` blocks or `access_requests`.",
        examples=[True],
    )
    allow_any_authenticated_user: Bool = Field(
        False,
        description="Allows every signed-in user. Same restriction as `allow_public_unauthenticated_access`.",
        examples=[True],
    )
    cors_allow_preflight: Bool = Field(False, description="Forwards CORS preflight requests (`OPTIONS`) without sign-in.", examples=[True])
    allow_websockets: Bool = Field(
        False, description="Allows WebSocket connections. Only `timeout` limits their duration.", examples=[True]
    )
    allow_spdy: Bool = Field(
        False, description="Allows SPDY/3.1 upgrades, which `kubectl` uses. `timeout` limits their duration.", examples=[True]
    )
    websocket_origins: Origins = Field(
        (),
        description="Additional origins whose pages may open WebSocket connections: exact, of any scheme that browsers send. "
        "`null` and `file://` are refused: every sandboxed frame and local file sends them.",
        examples=[["https://app.example.com", "capacitor://localhost"]],
    )
    timeout: Duration | None = Field(
        None,
        description="Maximum time from the end of the request to the end of the response; `0` disables it. With `upstream_http2`, "
        "responses other than gRPC and event streams also end after `timeout_idle` without data.",
        examples=["2m"],
        json_schema_extra={"when_unset": "`default_upstream_timeout`; none for websockets, upgrades and TCP"},
    )
    idle_timeout: Duration = Field(
        MAX_IDLE_TIMEOUT,
        description="Time without data in both directions after which a TCP tunnel is closed; `0` disables it.",
        examples=["1h"],
    )
    set_request_headers: RequestHeaders = Field(
        default_factory=dict,
        description="Request headers to set. Values can contain templates such as `${claim.email}`.",
        examples=[{"X-Environment": "staging"}],
    )
    remove_request_headers: RemovableRequestHeaders = Field((), description="Request headers to remove.", examples=[["X-Debug"]])
    set_response_headers: RouteResponseHeaders = Field(
        default_factory=dict,
        description="Response headers to set, in place of those of the upstream and of `headers`.",
        examples=[{"X-Frame-Options": "DENY"}],
    )
    remove_response_headers: RemovableResponseHeaders = Field(
        (), description="Response headers to remove, also those of `headers`.", examples=[["Server", "X-Powered-By"]]
    )
    pass_identity_headers: Bool = Field(
        False, description="Sends the signed assertion `X-Gate-Jwt-Assertion` and the `X-Gate-Claim-*` headers.", examples=[True]
    )
    identity_headers: Annotated[str, choice_type(*PRESETS)] | None = Field(
        None,
        description="Sends identity in the headers of another proxy, for applications that support it.",
        examples=["oauth2-proxy"],
    )
    assertion_header: AssertionHeader | None = Field(
        None, description="Additional header for the signed assertion.", examples=["X-Assertion"]
    )
    assertion_audience: Text | None = Field(
        None,
        description="`aud` claim of the assertion for this upstream.",
        examples=["my-app"],
        json_schema_extra={"when_unset": "the route's host"},
    )
    jwt_groups_filter: TextList | None = Field(
        None,
        description="Overrides the setting: groups that the upstream receives, in addition to those that the route's policy names.",
        examples=[["engineering"]],
    )
    cluster_service_account_token_file: File | None = Field(
        None, description="File form of `cluster_service_account_token`. Reloaded when it changes.", examples=["token"]
    )
    cluster_service_account_token: Annotated[
        ClusterToken | None, value_or_file("cluster_service_account_token_file", cluster_token_in_file)
    ] = Field(
        None,
        validate_default=True,
        description="Bearer token for a Kubernetes API server. gate sets `Impersonate-User` and `Impersonate-Group`.",
        examples=["PUT-THE-TOKEN-HERE"],
    )
    basic_auth: BasicAuth | None = Field(
        None,
        description="Credentials for HTTP Basic authentication at the upstream. The client's `Authorization` header is removed.",
        examples=[{"user": "gate", "password_file": "token"}],
    )
    enable_cloud_serverless_authentication: Bool | None = Field(
        None,
        description="Overrides the setting.",
        examples=[True],
        json_schema_extra={"when_unset": "as the setting of that name"},
    )
    tls_skip_verify: Bool = Field(False, description="Accepts any certificate from the upstream. Use it for tests only.", examples=[True])
    upstream_http2: Bool = Field(False, description="Uses HTTP/2 to the upstream, for gRPC. Needs `data_plane: envoy`.", examples=[True])
    tls_server_name: Annotated[Text, AfterValidator(canonical_host)] | None = Field(
        None, description="Name that the upstream's certificate must have, in place of the host in `to`.", examples=["upstream.internal"]
    )
    tls_custom_ca_file: File | None = Field(None, description="File form of `tls_custom_ca`, in PEM.", examples=["ca.pem"])
    tls_custom_ca: Annotated[Base64 | None, value_or_file("tls_custom_ca_file")] = Field(
        default=None,
        validate_default=True,
        description="CA certificates for the upstream, in place of the system's, in PEM.",
        examples=["BASE64-OF-ca.pem"],
    )
    tls_client_cert_file: File | None = Field(None, description="File form of `tls_client_cert`, in PEM.", examples=["client.pem"])
    tls_client_cert: Annotated[Base64 | None, value_or_file("tls_client_cert_file")] = Field(
        default=None,
        validate_default=True,
        description="Client certificate chain for the upstream, in PEM.",
        examples=["BASE64-OF-client.pem"],
    )
    tls_client_key_file: File | None = Field(None, description="File form of `tls_client_key`, in PEM.", examples=["client-key.pem"])
    tls_client_key: Annotated[Base64Secret | None, value_or_file("tls_client_key_file", SecretBytes)] = Field(
        default=None,
        validate_default=True,
        description="Private key of `tls_client_cert`, in PEM.",
        examples=["BASE64-OF-client-key.pem"],
    )
    tls_downstream_client_ca_file: File | None = Field(
        None, description="File form of `tls_downstream_client_ca`, in PEM.", examples=["ca.pem"]
    )
    tls_downstream_client_ca: Annotated[Base64 | None, value_or_file("tls_downstream_client_ca_file")] = Field(
        default=None,
        validate_default=True,
        description="As `client_ca`, for this route.",
        examples=["BASE64-OF-ca.pem"],
    )
    health_checks: tuple[HealthCheck, ...] = Field(
        (),
        description="Active health checks. An unhealthy upstream receives no requests.",
        examples=[[EXAMPLE_CHECK]],
    )
    outlier_detection: OutlierDetection | None = Field(
        None, description="Passive health checks: ejects an upstream after failures.", examples=[{"consecutive_5xx": 5}]
    )
    name: Text | None = Field(None, description="Name of the route in logs, metrics and traces.", examples=["app"])
    identity_header_names = cached_property(resolve_identity_headers)

    @cached_property
    def is_tcp(self) -> bool:
        return self.from_.scheme == SCHEME

    @cached_property
    def has_shadow_rules(self) -> bool:
        """Whether any rule is evaluated without being enforced."""
        return self.mode == SHADOW or any(block.mode == SHADOW for block in self.policy)

    @cached_property
    def is_in_portal(self) -> bool:
        return (self.portal or (SHOW if self.redirect is None else HIDE)) == SHOW

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All access rules: the route's keys as blocks, then the blocks of its policy."""
        return (*key_blocks(self), *self.policy)

    @cached_property
    def criteria(self) -> frozenset[str]:
        """Names of the criteria in its blocks."""
        return frozenset(comparison.criterion for comparison in iter_comparisons(self.blocks))

    @property
    def uses_temporary_access(self) -> bool:
        """Whether the policy uses the criterion `granted`."""
        return "granted" in self.criteria

    @cached_property
    def grant_key(self) -> str:
        """Key of this route in temporary access.

        Another name, address, path or upstream makes it another route, and so does a rewrite to another target.
        """
        return f"{self.id}{upstream_fingerprint(self)} {self.name or ''}"

    @cached_property
    def id(self) -> str:
        """16 hex digits that change only with the route's match and target."""
        redirect = None if self.redirect is None else self.redirect.model_dump(mode="json")
        key = [str(self.from_), self.path, self.prefix, self.regex, [str(upstream.url) for upstream in self.to], redirect]
        # Sorting needs a separate encoder per call, and only a redirect has keys to sort.
        return hashlib.sha256(json.dumps(key, sort_keys=redirect is not None).encode()).hexdigest()[:16]
