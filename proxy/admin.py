"""Admin page "Routes": a read-only description of the routes of the active configuration."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode

from authorize.policy.decision import Outcome
from config.inspect.policy_text import describe_policy
from config.reference.setting_catalog import format_duration
from config.routes.policy.policy_language import SHADOW
from config.routes.route import Route as ConfiguredRoute
from config.routes.route_identity_headers import sends_identity
from databroker.admin.read_only_admin import TablelessAdmin
from proxy.service import page_context
from proxy.upstreams.cluster import Clusters
from proxy.upstreams.upstream_errors import UpstreamErrors

DECISIONS, USERS = "authorize_loggeddecision_changelist", "databroker_user_changelist"
REPLAY = "authorize_loggeddecision_replay"
ROUTES_PER_PAGE = 100
MAX_LINKS = 10  # groups and domains of one route
_PORTS = {"http": 80, "https": 443}
MAX_PROBLEMS = 100  # on the page, because one mistake in a default may be repeated in each of ten thousand routes


class Route(models.Model):
    """Model without a table (PageAdmin)."""

    class Meta:
        app_label = "proxy"
        managed = False
        default_permissions = ()


Link = tuple[str, str, dict[str, str]]  # label, name of the admin page, query parameters


@dataclass(frozen=True, slots=True)
class Row:
    """Row of the page: one route.  Values of headers are left out, because they may be credentials for upstreams."""

    id: str
    name: str
    address: str
    match: str
    target: str
    upstreams: tuple[str, ...]
    access: tuple[str, ...]
    policy: tuple[str, ...]
    is_public: bool
    is_in_shadow: bool
    identity: str
    timeout: str
    header_names: str
    links: tuple[Link, ...]


class RouteAdmin(TablelessAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        gate = page_context(request)
        pages = {page: reverse(f"{self.admin_site.name}:{page}") for page in (DECISIONS, USERS, REPLAY)}
        query = request.GET.get("route", "").strip()
        routes = Paginator(search_routes(gate.options.policy, query), ROUTES_PER_PAGE).get_page(request.GET.get("p"))
        rows = [build_row(route, gate.proxy.clusters, gate.proxy.upstream_errors) for _, route in routes]
        linked = [(row, [(label, f"{pages[page]}?{urlencode(parameters)}") for label, page, parameters in row.links]) for row in rows]
        return self.page(
            request,
            "admin/proxy/routes.html",
            "Routes",
            rows=linked,
            routes=routes,
            query=query,
            **status_context(gate.configuration),
        )


def search_routes(routes: Sequence[ConfiguredRoute], query: str) -> list[tuple[int, ConfiguredRoute]]:
    """Return the routes whose name or address contains the query, or whose id equals it, with their positions.

    An empty query matches all routes.
    """
    lowered = query.lower()
    return [
        (index, route) for index, route in enumerate(routes) if lowered in f"{route.name or ''} {route.from_}".lower() or query == route.id
    ]


def status_context(configuration: Any) -> dict[str, Any]:
    """Return the context of templates/admin/configuration_status.html."""
    return {"configuration": configuration, "shown_problems": configuration.problems[:MAX_PROBLEMS]}


def register(site: admin.AdminSite) -> None:
    site.register(Route, RouteAdmin)


def build_row(route: ConfiguredRoute, clusters: Clusters | None = None, upstream_errors: UpstreamErrors | None = None) -> Row:
    return Row(
        id=route.id,
        name=route.name or "",
        address=str(route.from_),
        match=_match(route),
        target=_target(route),
        upstreams=_upstreams(route, clusters, upstream_errors or UpstreamErrors()),
        access=describe_access(route),
        policy=describe_policy(route),
        is_public=route.allow_public_unauthenticated_access,
        is_in_shadow=route.mode == SHADOW,
        identity="yes" if sends_identity(route) else "no",
        timeout=_tunnel_timeout(route) if route.is_tcp else _timeout(route.timeout),
        header_names=", ".join(sorted(route.set_request_headers)),
        links=_links(route),
    )


def describe_access(route: ConfiguredRoute) -> tuple[str, ...]:
    """Return descriptions of the clients with access.  Matching any one of them is enough."""
    phrases = []
    if route.allow_public_unauthenticated_access:
        phrases.append("everyone, without sign-in")
    if route.allow_any_authenticated_user:
        phrases.append("every signed-in user")
    phrases += [f"e-mail addresses at {domain}" for domain in route.allowed_domains]
    phrases += [f"group {group}" for group in route.allowed_groups]
    phrases += [f"user {user}" for user in route.allowed_users]
    phrases += [f"claim {name} = {value}" for name, values in route.allowed_idp_claims.items() for value in values]
    if route.cors_allow_preflight:
        phrases.append("CORS preflight requests, without sign-in")
    if any(block.effect == "allow" and block.mode != SHADOW for block in route.policy):
        phrases.append("users that the policy allows")
    return tuple(phrases) or ("nobody",)


def _links(route: ConfiguredRoute) -> tuple[Link, ...]:
    """Return links to the route's latest decisions, and to the users of its groups and domains."""
    names = (*route.allowed_groups, *(f"@{domain}" for domain in route.allowed_domains))
    return (
        ("Latest decisions", DECISIONS, {"route_id": route.id}),
        ("Latest refusals", DECISIONS, {"route_id": route.id, "outcome": Outcome.FORBIDDEN.value}),
        ("Replay with the current policy", REPLAY, {"route_id": route.id}),
        *((f"Users of {name}", USERS, {"q": name}) for name in names[:MAX_LINKS]),
    )


def _match(route: ConfiguredRoute) -> str:
    if route.is_tcp:
        return "tunnels (CONNECT)"
    keys = (("path", route.path), ("prefix", route.prefix), ("regex", route.regex))
    return ", ".join(f"{key} {value}" for key, value in keys if value) or "every path"


def _target(route: ConfiguredRoute) -> str:
    if route.redirect is None:
        return ", ".join(str(url) for url in route.to)
    settings = route.redirect.model_dump(exclude_unset=True, exclude_none=True)
    return "redirect: " + ", ".join(key if value is True else f"{key} {value}" for key, value in settings.items() if value is not False)


def last_errors(route: ConfiguredRoute, upstream_errors: UpstreamErrors) -> list[str]:
    """Return the last error of each upstream of a route; "" where its last request got a response, or there was none."""
    return [upstream_errors.last_error((each.url.host.strip("[]"), each.url.port or _PORTS.get(each.url.scheme))) for each in route.to]


def _upstreams(route: ConfiguredRoute, clusters: Clusters | None, upstream_errors: UpstreamErrors) -> tuple[str, ...]:
    """Describe each upstream with weight, health and last error; return () if there is nothing beyond the target."""
    cluster = clusters.get(route) if clusters is not None else None
    errors = last_errors(route, upstream_errors)
    if cluster is None:
        return tuple(f"{upstream.url}: {trouble}" for upstream, trouble in zip(route.to, errors, strict=True)) if any(errors) else ()
    triples = zip(route.to, cluster.members, errors, strict=True)
    return tuple(
        f"{upstream.url}, weight {upstream.weight}: {cluster.health(member)}{trouble and f'; {trouble}'}"
        for upstream, member, trouble in triples
    )


def _timeout(timeout: timedelta | None) -> str:
    if timeout is None:
        return "default"
    return format_duration(timeout) if timeout else "none"


def _tunnel_timeout(route: ConfiguredRoute) -> str:
    return f"{_timeout(route.timeout or timedelta(0))}; idle {_timeout(route.idle_timeout)}"
