"""Reserved paths: find the handler of a request by host and canonical path.  The query never matters."""

from enum import Enum, auto
from typing import NamedTuple


class RequestHandler(Enum):
    DATA_PLANE = auto()  # routes
    HEALTH = auto()  # /ping and /healthz on every host, even unknown ones; on hosts of routes only with `health_paths_on_routes`
    READINESS = auto()  # /.gate/readyz on every host
    ROBOTS = auto()
    SLASH_REDIRECT = auto()  # /.gate -> /.gate/
    PORTAL_REDIRECT = auto()  # / of the authenticate host
    AUTHENTICATE_PAGES = auto()
    ROUTE_PAGES = auto()
    FORWARD_AUTH = auto()  # checks by front proxies
    NOT_FOUND = auto()  # a host that is not configured, or an unknown path of the authenticate host


HEALTH_PATHS = frozenset({"/ping", "/healthz"})
READINESS_PATH = "/.gate/readyz"
# RFC 8414 3, RFC 9728 3.
SERVER_METADATA_PATH, RESOURCE_METADATA_PATH = "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource"
MISSING_SLASH_PATHS = frozenset({"/.gate", "/.well-known/gate"})


class HostRoles(NamedTuple):
    """Roles of a host.  The authenticate host may also have routes."""

    is_authenticate_host: bool
    is_route_host: bool
    is_forward_auth_host: bool = False
    has_health_paths: bool = True
    has_protected_resources: bool = False  # routes with `mcp`


def handler_for(path: str, host: HostRoles, callback_path: str) -> RequestHandler:
    is_authenticate_host, is_route_host, is_forward_auth_host, has_health_paths, has_protected_resources = host
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
    if has_protected_resources and is_resource_metadata_path(path):
        return RequestHandler.ROUTE_PAGES
    if is_authenticate_host and path == SERVER_METADATA_PATH:
        return RequestHandler.AUTHENTICATE_PAGES
    if path in MISSING_SLASH_PATHS:
        return RequestHandler.SLASH_REDIRECT
    if path == "/robots.txt":
        return RequestHandler.ROBOTS
    if is_authenticate_host and path == callback_path:
        return RequestHandler.AUTHENTICATE_PAGES
    if is_route_host:
        return RequestHandler.DATA_PLANE
    return RequestHandler.PORTAL_REDIRECT if path == "/" else RequestHandler.NOT_FOUND


def is_reserved_path(path: str) -> bool:
    """Return whether gate serves this path on every host, even if the application has the same path."""
    return path.startswith(("/.gate/", "/.well-known/gate/"))


def is_resource_metadata_path(path: str) -> bool:
    """Whether this is the metadata of a protected resource, which every client may read before it has a token."""
    return path == RESOURCE_METADATA_PATH or path.startswith(f"{RESOURCE_METADATA_PATH}/")
