"""API of routes: the routes of the active configuration and their access rules, read-only."""

from typing import Literal

from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import invalid_input
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel
from authenticate.api.cursors import decode_cursor, encode_cursor
from config.routes.route import Route

LIST_NAME = "routes"


class RouteQuery(PageQuery):
    host: PlainText | None = Field(None, description="Only routes of this host, as in `from`.")


class RouteAccess(ResponseModel):
    """Access rules in the route's own keys; `has_policy`: its `policy` has more."""

    public: bool
    any_authenticated_user: bool
    users: list[str]
    groups: list[str]
    domains: list[str]
    has_policy: bool
    requestable: bool = Field(description="Whether the route has `access_requests`.")


class RouteResource(ResponseModel):
    """A route.  Routes are matched in order of `position`, and the first match applies.  Headers are omitted: they hold secrets."""

    position: int
    id: str
    name: str
    title: str
    from_: str = Field(serialization_alias="from")
    path: str
    prefix: str
    regex: str
    to: list[str]
    type: Literal["http", "redirect", "tcp"]
    mode: str
    access: RouteAccess


class RouteList(ResponseModel):
    items: list[RouteResource]
    next: str | None


@operation("GET", "routes", "routes:read", "Routes, in their order", query=RouteQuery)
async def list_routes(call: ApiCall) -> RouteList:
    query: RouteQuery = call.query
    keys = decode_cursor(LIST_NAME, query.cursor)
    if keys is not None and not (keys[0].isascii() and keys[0].isdecimal() and len(keys[0]) <= 9):
        raise invalid_input("query", [("cursor", "is not valid for this list")])
    after = -1 if keys is None else int(keys[0])
    routes = enumerate(call.context.options.policy)
    found = [(position, route) for position, route in routes if position > after and query.host in (None, route.from_.host)]
    page = found[: query.limit]
    items = [_to_response(position, route) for position, route in page]
    return RouteList(items=items, next=encode_cursor(LIST_NAME, str(page[-1][0])) if len(found) > len(page) else None)


def _to_response(position: int, route: Route) -> RouteResource:
    return RouteResource(
        position=position,
        id=route.id,
        name=route.name or "",
        title=route.title or "",
        from_=str(route.from_),
        path=route.path or "",
        prefix=route.prefix or "",
        regex=route.regex or "",
        to=[str(upstream.url) for upstream in route.to],
        type="redirect" if route.redirect is not None else "tcp" if route.is_tcp else "http",
        mode=route.mode,
        access=RouteAccess(
            public=route.allow_public_unauthenticated_access,
            any_authenticated_user=route.allow_any_authenticated_user,
            users=list(route.allowed_users),
            groups=list(route.allowed_groups),
            domains=list(route.allowed_domains),
            has_policy=bool(route.policy or route.allowed_idp_claims),
            requestable=route.access_requests is not None,
        ),
    )
