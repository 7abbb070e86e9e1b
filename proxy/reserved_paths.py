"""Own paths: which requests are ours, on which host.  The canonical path alone decides: nothing in a query ever makes a request ours."""

from enum import Enum, auto
from typing import NamedTuple


class RequestHandler(Enum):
    DATA_PLANE = auto()  # a route decides
    HEALTH = auto()  # /ping and /healthz, on every host, unknown ones too; not on those of routes without `health_paths_on_routes`
    READINESS = auto()  # /.gate/readyz, there too
    ROBOTS = auto()
    SLASH_REDIRECT = auto()  # /.gate -> /.gate/
    DASHBOARD_REDIRECT = auto()  # the front door of the authenticate host
    AUTHENTICATE_PAGES = auto()
    ROUTE_PAGES = auto()
    FORWARD_AUTH = auto()  # another proxy asks
    NOT_FOUND = auto()  # a host that nobody configured


HEALTH_PATHS = frozenset({"/ping", "/healthz"})
READINESS_PATH = "/.gate/readyz"
MISSING_SLASH_PATHS = frozenset({"/.gate", "/.well-known/gate"})


class HostRoles(NamedTuple):
    """What a host is to us; a route may stand at the authenticate host."""

    is_authenticate_host: bool
    is_route_host: bool
    is_forward_auth_host: bool = False
    has_health_paths: bool = True


def handler_for(path: str, host: HostRoles, callback_path: str) -> RequestHandler:
    is_authenticate_host, is_route_host, is_forward_auth_host, has_health_paths = host
    if path in HEALTH_PATHS and has_health_paths:
        return RequestHandler.HEALTH
    if path == READINESS_PATH:
        return RequestHandler.READINESS
    if is_forward_auth_host:
        return RequestHandler.FORWARD_AUTH
    if not (is_authenticate_host or is_route_host):
        return RequestHandler.NOT_FOUND
    if is_reserved_path(path):
        return RequestHandler.AUTHENTICATE_PAGES if is_authenticate_host else RequestHandler.ROUTE_PAGES
    if path in MISSING_SLASH_PATHS:
        return RequestHandler.SLASH_REDIRECT
    if path == "/robots.txt":
        return RequestHandler.ROBOTS
    if is_authenticate_host and path == callback_path:
        return RequestHandler.AUTHENTICATE_PAGES
    if is_route_host:
        return RequestHandler.DATA_PLANE
    return RequestHandler.DASHBOARD_REDIRECT if path == "/" else RequestHandler.NOT_FOUND


def is_reserved_path(path: str) -> bool:
    """Whether this is a page of ours on every host, whatever the application behind it has there."""
    return path.startswith(("/.gate/", "/.well-known/gate/"))
