"""Which requests are ours, on which host.  The canonical path alone decides: nothing in a query ever makes a request ours."""

from enum import Enum, auto


class Owner(Enum):
    DATA_PLANE = auto()  # a route decides
    HEALTH = auto()  # /ping and /healthz, on every host, unknown ones too
    ROBOTS = auto()
    ADD_SLASH = auto()  # /.gate -> /.gate/
    TO_DASHBOARD = auto()  # the front door of the authenticate host
    AUTHENTICATE_PAGES = auto()
    ROUTE_PAGES = auto()
    NOTHING = auto()  # a host that nobody configured


HEALTH_PATHS = frozenset({"/ping", "/healthz"})
SLASHLESS = frozenset({"/.gate", "/.well-known/gate"})


def owner(path: str, *, is_authenticate_host: bool, is_route_host: bool, callback_path: str) -> Owner:
    if path in HEALTH_PATHS:
        return Owner.HEALTH
    if not (is_authenticate_host or is_route_host):
        return Owner.NOTHING
    if path.startswith(("/.gate/", "/.well-known/gate/")):
        return Owner.AUTHENTICATE_PAGES if is_authenticate_host else Owner.ROUTE_PAGES
    if path in SLASHLESS:
        return Owner.ADD_SLASH
    if path == "/robots.txt":
        return Owner.ROBOTS
    if is_authenticate_host and path == callback_path:
        return Owner.AUTHENTICATE_PAGES
    if is_route_host:
        return Owner.DATA_PLANE
    return Owner.TO_DASHBOARD if path == "/" else Owner.NOTHING
