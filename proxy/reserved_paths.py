"""Own paths: which requests are ours, on which host.  The canonical path alone decides: nothing in a query ever makes a request ours."""

from enum import Enum, auto
from typing import NamedTuple


class Owner(Enum):
    DATA_PLANE = auto()  # a route decides
    HEALTH = auto()  # /ping and /healthz, on every host, unknown ones too; not on those of routes without `health_paths_on_routes`
    READINESS = auto()  # /.gate/readyz, there too
    ROBOTS = auto()
    ADD_SLASH = auto()  # /.gate -> /.gate/
    TO_DASHBOARD = auto()  # the front door of the authenticate host
    AUTHENTICATE_PAGES = auto()
    ROUTE_PAGES = auto()
    FORWARD_AUTH = auto()  # another proxy asks
    NOTHING = auto()  # a host that nobody configured


HEALTH_PATHS = frozenset({"/ping", "/healthz"})
READINESS_PATH = "/.gate/readyz"
SLASHLESS = frozenset({"/.gate", "/.well-known/gate"})


class HostFacts(NamedTuple):
    """What a host is to us; a route may stand at the authenticate host."""

    is_authenticate_host: bool
    is_route_host: bool
    is_forward_auth_host: bool = False
    has_health_paths: bool = True


def owner(path: str, host: HostFacts, callback_path: str) -> Owner:
    is_authenticate_host, is_route_host, is_forward_auth_host, has_health_paths = host
    if path in HEALTH_PATHS and has_health_paths:
        return Owner.HEALTH
    if path == READINESS_PATH:
        return Owner.READINESS
    if is_forward_auth_host:
        return Owner.FORWARD_AUTH
    if not (is_authenticate_host or is_route_host):
        return Owner.NOTHING
    if is_own_page(path):
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


def is_own_page(path: str) -> bool:
    """Whether this is a page of ours on every host, whatever the application behind it has there."""
    return path.startswith(("/.gate/", "/.well-known/gate/"))
