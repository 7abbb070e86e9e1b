"""API of routes: what the configuration in force says, and who may enter.  Nothing is changed here: that is the configuration's."""

from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import invalid_input
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel
from authenticate.api.cursors import decode_cursor, encode_cursor
from config.routes.route import Route

LIST = "routes"


class RouteQuery(PageQuery):
    host: PlainText | None = Field(None, description="Only routes of this host, as in `from`.")


class RouteAccess(ResponseModel):
    """Who may enter by the route's own keys; `has_policy`: its `policy` says more."""

    public: bool
    any_authenticated_user: bool
    users: list[str]
    groups: list[str]
    domains: list[str]
    has_policy: bool
    may_be_asked_for: bool


class ListedRoute(ResponseModel):
    """A route, in the order in which they are looked at: the first that fits counts.  Headers stay out: they hold keys."""

    place: int
    id: str
    name: str
    title: str
    from_: str = Field(serialization_alias="from")
    path: str
    prefix: str
    regex: str
    to: list[str]
    is_redirect: bool
    is_tcp: bool
    mode: str
    access: RouteAccess


class RouteList(ResponseModel):
    items: list[ListedRoute]
    next: str | None


@operation("GET", "routes", "routes:read", "Routes, in their order", query=RouteQuery)
async def list_routes(call: ApiCall) -> RouteList:
    query: RouteQuery = call.query
    keys = decode_cursor(LIST, query.cursor)
    if keys is not None and not (keys[0].isascii() and keys[0].isdecimal() and len(keys[0]) <= 9):
        raise invalid_input("query", [("cursor", "is not valid for this list")])
    after = -1 if keys is None else int(keys[0])
    places = enumerate(call.context.options.policy)
    found = [(place, route) for place, route in places if place > after and query.host in (None, route.from_.host)]
    page = found[: query.limit]
    items = [_shown(place, route) for place, route in page]
    return RouteList(items=items, next=encode_cursor(LIST, str(page[-1][0])) if len(found) > len(page) else None)


def _shown(place: int, route: Route) -> ListedRoute:
    return ListedRoute(
        place=place,
        id=route.id,
        name=route.name or "",
        title=route.title or "",
        from_=str(route.from_),
        path=route.path or "",
        prefix=route.prefix or "",
        regex=route.regex or "",
        to=[str(upstream.url) for upstream in route.to],
        is_redirect=route.redirect is not None,
        is_tcp=route.is_tcp,
        mode=route.mode,
        access=RouteAccess(
            public=route.allow_public_unauthenticated_access,
            any_authenticated_user=route.allow_any_authenticated_user,
            users=list(route.allowed_users),
            groups=list(route.allowed_groups),
            domains=list(route.allowed_domains),
            has_policy=bool(route.policy or route.allowed_idp_claims),
            may_be_asked_for=route.access_requests is not None,
        ),
    )
