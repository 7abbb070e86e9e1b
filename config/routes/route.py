"""Route, one entry of `policy`: what it matches, who may pass, where it leads."""

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from config import removed_keys
from config.routes.access_requests import AccessRequestKeys, asking_needs_a_rule, way_of
from config.routes.bearer_tokens import BearerTokenKeys, bearer_tokens_are_whole
from config.routes.policy.language import ENFORCE, MODES, SHADOW, Block, comparisons, policy_blocks
from config.routes.policy.values import regular_expression
from config.routes.portal import CHOICES as PORTAL_CHOICES
from config.routes.portal import HIDE, SHOW, Category, Description, Icon, RefusalMessage, Title
from config.routes.provider_tokens import ProviderTokenKeys, provider_tokens_are_guarded
from config.routes.redirect import RouteRedirect
from config.routes.rewrites import (
    HeaderName,
    HostSubstitution,
    PathSubstitution,
    Pattern,
    WrittenHost,
    regexes_are_whole,
    rewritten_once,
)
from config.routes.tcp import MOST_SILENCE, SCHEME, tcp_has_no_http, tcp_leads_to_tcp
from config.routes.told_headers import PRESETS, AssertionHeader, templates_can_be_set, told_header_names
from config.routes.upstreams.balancing import (
    POLICIES,
    ROUND_ROBIN,
    LeastRequestSettings,
    MaglevSettings,
    RingHashSettings,
    settings_fit_the_policy,
)
from config.routes.upstreams.credentials import (
    BasicAuth,
    ClusterToken,
    basic_auth_is_alone,
    client_certificate_is_whole,
    cluster_token_in_file,
    impersonation_needs_a_person,
    serverless_needs_an_upstream,
)
from config.routes.upstreams.health import EXAMPLE_CHECK, HealthCheck, OutlierDetection, checks_need_upstreams
from config.routes.upstreams.urls import UpstreamUrls
from config.routes.values import AbsolutePath, AcrValues, Claims, Domains, FromUrl, MaxAge, Origins, RewrittenPath
from config.types.fields import Base64, Base64Secret, Bool, Duration, File, Text, TextList, or_file
from config.types.headers import AnswerHeaders, RemovableAnswerHeaders, RemovableHeaders, RequestHeaders
from config.types.reader import TEXT, SettingReader, Shape, one_of
from config.validation import Finding
from foundation.values import SecretBytes, canonical_host

_BLOCK: Shape = {
    "type": "object",
    "minProperties": 1,
    "properties": {"allow": {"type": "object"}, "deny": {"type": "object"}, "mode": {"type": "string", "enum": list(MODES)}},
    "anyOf": [{"required": ["allow"]}, {"required": ["deny"]}],
    "additionalProperties": False,
}
POLICY: Shape = {"anyOf": [_BLOCK, {"type": "array", "minItems": 1, "items": _BLOCK}]}


def _leads_somewhere(route: Any) -> Iterator[Finding]:
    if not route.to and route.redirect is None:
        yield (), "needs `to` or `redirect`"


def _open_routes_have_no_lists(route: Any) -> Iterator[Finding]:
    names = ("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims")
    lists = [name for name in names if getattr(route, name)]
    if any(block.effect == "allow" for block in route.policy):
        lists.append("`allow` of policy")
    if route.access_requests is not None:
        lists.append("access_requests")
    for key in ("allow_public_unauthenticated_access", "allow_any_authenticated_user"):
        if lists and getattr(route, key):
            yield (key,), f"lets everybody pass, so {', '.join(lists)} would have no effect: remove one or the other"


def _answers_have_one_reading(route: Any) -> Iterator[Finding]:
    removed = {name.lower() for name in route.remove_response_headers}
    for name in route.set_response_headers:
        if name.lower() in removed:
            yield ("remove_response_headers",), f"{name} is set by set_response_headers, too: remove one or the other"
    if route.redirect is not None:
        for key in ("set_response_headers", "remove_response_headers"):
            if getattr(route, key):
                yield (key,), "has no effect on a redirect, which is gate's own answer: `headers` counts there"


def _origins_need_websockets(route: Any) -> Iterator[Finding]:
    if route.websocket_origins and not route.allow_websockets:
        yield ("websocket_origins",), "has no effect without allow_websockets"


def _strength_needs_a_sign_in(route: Any) -> Iterator[Finding]:
    if route.allow_public_unauthenticated_access or route.redirect is not None:
        for key in ("acr_values", "max_age", "identity_providers"):
            if getattr(route, key):
                yield (key,), "has no effect where nobody needs to sign in"


class Route(BearerTokenKeys, ProviderTokenKeys):
    """`path`, `prefix`, `regex` and `prefix_rewrite` are as written; policy brings them into canonical form."""

    RULES = (
        _leads_somewhere,
        tcp_leads_to_tcp,
        tcp_has_no_http,
        _open_routes_have_no_lists,
        _origins_need_websockets,
        _answers_have_one_reading,
        _strength_needs_a_sign_in,
        asking_needs_a_rule,
        impersonation_needs_a_person,
        basic_auth_is_alone,
        serverless_needs_an_upstream,
        settings_fit_the_policy,
        regexes_are_whole,
        rewritten_once,
        client_certificate_is_whole,
        checks_need_upstreams,
        bearer_tokens_are_whole,
        templates_can_be_set,
        provider_tokens_are_guarded,
    )
    REMOVED: ClassVar[dict[str, str]] = removed_keys.ROUTE_KEYS

    from_: FromUrl = Field(
        alias="from",
        description="External URL: scheme and host, no path. A first label `*` matches any one label. "
        "`tcp+https://host:port` carries TCP through a tunnel (docs/tcp.md).",
        examples=["https://app.example.com"],
    )
    to: UpstreamUrls = Field(
        (),
        description="The upstream, or several of the same path, each perhaps with a weight: `http://a.internal:8000,3`. "
        "The request's path is appended to its path.",
        examples=["http://127.0.0.1:8001", ["https://upstream.internal/base/"]],
    )
    redirect: RouteRedirect | None = Field(
        None, description="Answers with a redirect instead of proxying; needs no sign-in.", examples=[{"host_redirect": "app.example.com"}]
    )
    path: AbsolutePath | None = Field(None, description="Matches only this exact path.", examples=["/robots.txt"])
    prefix: AbsolutePath | None = Field(None, description="Matches paths that begin with it.", examples=["/admin/"])
    regex: Annotated[str, SettingReader("string", regular_expression, TEXT)] | None = Field(
        None, description="Matches paths that the whole RE2 expression matches.", examples=["/item/[0-9]+"]
    )
    prefix_rewrite: RewrittenPath | None = Field(None, description="Replaces the matched prefix or path when forwarding.", examples=["/"])
    regex_rewrite_pattern: Pattern | None = Field(
        None, description="Rewrites the path: every match of this RE2 expression is replaced.", examples=["^/old/(.*)$"]
    )
    regex_rewrite_substitution: PathSubstitution | None = Field(
        None, description=r"What takes its place; `\1` is the first group, `\0` the whole match.", examples=[r"/new/\1"]
    )
    preserve_host_header: Bool = Field(False, description="Passes the incoming Host header upstream.", examples=[True])
    host_rewrite: WrittenHost | None = Field(None, description="The Host that the upstream receives.", examples=["upstream.internal"])
    host_rewrite_header: HeaderName | None = Field(
        None,
        description="The incoming header whose value becomes the upstream's Host; without it the incoming Host passes.",
        examples=["X-Upstream-Host"],
    )
    host_path_regex_rewrite_pattern: Pattern | None = Field(
        None, description="Derives the upstream's Host from the path: every match of this is replaced.", examples=["^/([a-z]+)/.*$"]
    )
    host_path_regex_rewrite_substitution: HostSubstitution | None = Field(
        None, description=r"What takes its place, so that a host is left; `\1` is the first group.", examples=[r"\1.internal"]
    )
    allowed_domains: Domains = Field(
        (), description="E-mail domains whose people may pass. A hit in any of the allow-lists is enough.", examples=[["example.com"]]
    )
    allowed_groups: TextList = Field((), description="Groups whose members may pass.", examples=[["engineering"]])
    allowed_users: TextList = Field(
        (), description="Who may pass: e-mail address, `provider/subject` or subject (docs/policy.md).", examples=[["alice@example.com"]]
    )
    allowed_idp_claims: Claims = Field(
        default_factory=dict,
        description="Claim values that let people, and tokens, pass. Nested maps become dotted keys, a single value a list of one.",
        examples=[{"department": ["finance", "legal"]}],
    )
    policy: Annotated[tuple[Block, ...], SettingReader("list of objects", policy_blocks, POLICY)] = Field(
        (),
        description="What lists can't say: blocks of `allow` and `deny`; a deny outranks every allow (docs/policy.md).",
        examples=[[{"deny": {"not": {"source_ip": "10.0.0.0/8"}}}]],
    )
    access_requests: AccessRequestKeys | None = Field(
        None,
        description="Who is not let in may ask for access for a while, and approvers give it (docs/access.md).",
        examples=[{"approvers": [{"groups": "payroll-leads"}], "max_duration": "2h"}],
    )
    acr_values: AcrValues = Field(
        (),
        description="Who may pass must have signed in in one of these ways, as the provider names them (claim `acr`), or signs in so now.",
        examples=[["urn:example:mfa"]],
    )
    max_age: MaxAge | None = Field(
        None,
        description="Who may pass must have proved to the provider who they are no longer ago (claim `auth_time`), or does so now.",
        examples=["15m"],
    )
    mode: Annotated[str, one_of(*MODES)] = Field(
        ENFORCE,
        description="With `shadow` the route decides nothing and carries nothing: what it would have done is logged and counted.",
        examples=[SHADOW],
    )
    allow_public_unauthenticated_access: Bool = Field(
        False, description="Everybody passes, without signing in; no allow-list may be given.", examples=[True]
    )
    allow_any_authenticated_user: Bool = Field(
        False, description="Everybody who can sign in passes; no allow-list may be given.", examples=[True]
    )
    cors_allow_preflight: Bool = Field(False, description="Lets OPTIONS preflight requests pass without signing in.", examples=[True])
    allow_websockets: Bool = Field(False, description="Allows websockets; `timeout` bounds them, global timeouts don't.", examples=[True])
    allow_spdy: Bool = Field(False, description="Allows SPDY/3.1, as clients of clusters ask for; `timeout` bounds it.", examples=[True])
    websocket_origins: Origins = Field(
        (), description="Other origins whose pages may open websockets here.", examples=[["https://app.example.com"]]
    )
    timeout: Duration | None = Field(
        None,
        description="From the end of the request to the end of the response, however silent the upstream is meanwhile; 0 is no limit."
        " With `upstream_http2`, what is neither gRPC nor events ends after `timeout_idle` of silence, too.",
        examples=["2m"],
        json_schema_extra={"when_unset": "`default_upstream_timeout`; none for websockets, upgrades and TCP"},
    )
    idle_timeout: Duration = Field(
        MOST_SILENCE, description="Ends a tunnel for TCP when neither end has said anything for so long; 0 is no limit.", examples=["1h"]
    )
    set_request_headers: RequestHeaders = Field(
        default_factory=dict,
        description="Request headers that the upstream receives, `${claim.email}` and the like filled in (docs/identity_headers.md).",
        examples=[{"X-Environment": "staging"}],
    )
    remove_request_headers: RemovableHeaders = Field(
        (), description="Request headers that the upstream doesn't receive.", examples=[["X-Debug"]]
    )
    set_response_headers: AnswerHeaders = Field(
        default_factory=dict,
        description="Headers of the upstream's answers, in place of its own and of those of `headers`.",
        examples=[{"X-Frame-Options": "DENY"}],
    )
    remove_response_headers: RemovableAnswerHeaders = Field(
        (), description="Headers that its answers lose, those of `headers` among them.", examples=[["Server", "X-Powered-By"]]
    )
    pass_identity_headers: Bool = Field(False, description="Sends `X-Gate-Jwt-Assertion` and `X-Gate-Claim-*` upstream.", examples=[True])
    identity_headers: Annotated[str, one_of(*PRESETS)] | None = Field(
        None,
        description="Tells who asks in the headers of another proxy, for applications made for that (docs/identity_headers.md).",
        examples=["oauth2-proxy"],
    )
    assertion_header: AssertionHeader | None = Field(
        None, description="A header in which the upstream gets the assertion, too.", examples=["X-Assertion"]
    )
    assertion_audience: Text | None = Field(
        None,
        description="The assertion's `aud` for this upstream.",
        examples=["my-app"],
        json_schema_extra={"when_unset": "the route's host"},
    )
    jwt_groups_filter: TextList | None = Field(
        None,
        description="In place of the setting of that name: the upstream learns of these groups, and of those that the route itself names.",
        examples=[["engineering"]],
    )
    cluster_service_account_token_file: File | None = Field(
        None, description="File form of `cluster_service_account_token`, read again when it changes.", examples=["token"]
    )
    cluster_service_account_token: Annotated[ClusterToken | None, or_file("cluster_service_account_token_file", cluster_token_in_file)] = (
        Field(
            None,
            validate_default=True,
            description="Bearer token for a cluster's API server; `Impersonate-User` and `Impersonate-Group` say for whom.",
            examples=["PUT-THE-TOKEN-HERE"],
        )
    )
    basic_auth: BasicAuth | None = Field(
        None,
        description="User name and password that the upstream is shown, for old applications; the client's own are taken out.",
        examples=[{"user": "gate", "password_file": "token"}],
    )
    enable_cloud_serverless_authentication: Bool | None = Field(
        None,
        description="As the setting of that name, for this route.",
        examples=[True],
        json_schema_extra={"when_unset": "as the setting of that name"},
    )
    tls_skip_verify: Bool = Field(False, description="Accepts any upstream certificate and name; for testing only.", examples=[True])
    upstream_http2: Bool = Field(False, description="Speaks HTTP/2 to it, for gRPC (`data_plane: envoy`).", examples=[True])
    tls_server_name: Annotated[Text, AfterValidator(canonical_host)] | None = Field(
        None, description="The name to verify the upstream's certificate against.", examples=["upstream.internal"]
    )
    tls_custom_ca_file: File | None = Field(None, description="File form of `tls_custom_ca`.", examples=["ca.pem"])
    tls_custom_ca: Annotated[Base64 | None, or_file("tls_custom_ca_file")] = Field(
        default=None,
        validate_default=True,
        description="Root CAs for verifying the upstream, instead of the system's: base64 of PEM.",
        examples=["BASE64-OF-ca.pem"],
    )
    tls_client_cert_file: File | None = Field(None, description="File form of `tls_client_cert`.", examples=["client.pem"])
    tls_client_cert: Annotated[Base64 | None, or_file("tls_client_cert_file")] = Field(
        default=None,
        validate_default=True,
        description="Certificate, with its chain, that the upstream is shown: base64 of PEM.",
        examples=["BASE64-OF-client.pem"],
    )
    tls_client_key_file: File | None = Field(None, description="File form of `tls_client_key`.", examples=["client-key.pem"])
    tls_client_key: Annotated[Base64Secret | None, or_file("tls_client_key_file", SecretBytes)] = Field(
        default=None, validate_default=True, description="Its private key: base64 of PEM.", examples=["BASE64-OF-client-key.pem"]
    )
    tls_downstream_client_ca_file: File | None = Field(None, description="File form of `tls_downstream_client_ca`.", examples=["ca.pem"])
    tls_downstream_client_ca: Annotated[Base64 | None, or_file("tls_downstream_client_ca_file")] = Field(
        default=None,
        validate_default=True,
        description="CA that client certificates must come from, instead of `client_ca`: base64 of PEM.",
        examples=["BASE64-OF-ca.pem"],
    )
    lb_policy: Annotated[str, one_of(*POLICIES)] = Field(
        ROUND_ROBIN, description="How requests are spread over the upstreams of `to`; weights count in all.", examples=["LEAST_REQUEST"]
    )
    least_request_lb_config: LeastRequestSettings | None = Field(
        None, description="Settings of LEAST_REQUEST.", examples=[{"choice_count": 2}]
    )
    ring_hash_lb_config: RingHashSettings | None = Field(None, description="Settings of RING_HASH.", examples=[{"minimum_ring_size": 1024}])
    maglev_lb_config: MaglevSettings | None = Field(None, description="Settings of MAGLEV.", examples=[{"table_size": 65537}])
    health_checks: tuple[HealthCheck, ...] = Field(
        (),
        description="Periodic checks; an unhealthy upstream gets no traffic.",
        examples=[[EXAMPLE_CHECK]],
    )
    outlier_detection: OutlierDetection | None = Field(
        None, description="Leaves an upstream that answers badly out for a while.", examples=[{"consecutive_5xx": 5}]
    )
    name: Text | None = Field(None, description="The route's name in metrics and logs.", examples=["app"])
    title: Title | None = Field(
        None,
        description="The application's name on people's start page (docs/portal.md).",
        examples=["Team wiki"],
        json_schema_extra={"when_unset": "made of the host"},
    )
    description: Description | None = Field(None, description="A sentence about it there.", examples=["Minutes, plans and how-tos"])
    icon: Icon | None = Field(
        None,
        description="Its picture there: a small PNG, an SVG of shapes alone, or a word (docs/portal.md).",
        examples=["book"],
        json_schema_extra={"when_unset": "the first letter of its title"},
    )
    category: Category | None = Field(None, description="The heading that it stands under there.", examples=["Engineering"])
    portal: Annotated[str, one_of(*PORTAL_CHOICES)] | None = Field(
        None,
        description="Whether it stands there for those who may open it.",
        examples=[HIDE],
        json_schema_extra={"when_unset": "`show`; `hide` for a route that redirects"},
    )
    refusal_message: RefusalMessage | None = Field(
        None,
        description="What the page of a refused person tells them to do.",
        examples=["The payroll team lets you in: write to payroll@example.com."],
        json_schema_extra={"when_unset": "to ask the people who run the application"},
    )
    told_header_names = cached_property(told_header_names)  # by which its upstream is told who asks

    @cached_property
    def is_tcp(self) -> bool:
        return self.from_.scheme == SCHEME

    @cached_property
    def has_shadow(self) -> bool:
        """Whether anything of it is evaluated without being enforced."""
        return self.mode == SHADOW or any(block.mode == SHADOW for block in self.policy)

    @cached_property
    def is_in_portal(self) -> bool:
        return (self.portal or (SHOW if self.redirect is None else HIDE)) == SHOW

    @cached_property
    def criteria(self) -> frozenset[str]:
        """The names of the criteria that its policy has."""
        return frozenset(comparison.criterion for comparison in comparisons(self.policy))

    @cached_property
    def sees_access(self) -> bool:
        """Whether temporary access is among what its rules look at."""
        return self.access_requests is not None or "granted" in self.criteria

    @cached_property
    def access_key(self) -> str:
        """Name by which temporary access names this route: with another name, address, path or upstream, or with another way to what lies
        behind that, it is another route."""
        return f"{self.id}{way_of(self)} {self.name or ''}"

    @cached_property
    def id(self) -> str:
        """16 hex digits that stay the same while the route matches and leads to the same."""
        redirect = None if self.redirect is None else self.redirect.model_dump(mode="json")
        key = [str(self.from_), self.path, self.prefix, self.regex, [str(upstream.url) for upstream in self.to], redirect]
        # Sorting needs an encoder of its own each time, and there is something to sort in a redirect only.
        return hashlib.sha256(json.dumps(key, sort_keys=redirect is not None).encode()).hexdigest()[:16]
