import pytest

from proxy.reserved_paths import HostRoles, RequestHandler, handler_for


def owner_at(path: str, host: str) -> RequestHandler:
    facts = {"auth": (True, False), "app": (False, True), "both": (True, True), "unknown": (False, False)}[host]
    return handler_for(path, HostRoles(*facts), "/oauth2/callback")


@pytest.mark.parametrize(
    ("path", "at_auth", "at_app", "at_unknown"),
    [
        ("/ping", RequestHandler.HEALTH, RequestHandler.HEALTH, RequestHandler.HEALTH),
        ("/healthz", RequestHandler.HEALTH, RequestHandler.HEALTH, RequestHandler.HEALTH),
        ("/ping/", RequestHandler.NOT_FOUND, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
        ("/healthz/x", RequestHandler.NOT_FOUND, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
        ("/.gate", RequestHandler.SLASH_REDIRECT, RequestHandler.SLASH_REDIRECT, RequestHandler.NOT_FOUND),
        ("/.gate/", RequestHandler.AUTHENTICATE_PAGES, RequestHandler.ROUTE_PAGES, RequestHandler.NOT_FOUND),
        ("/.gate/admin/", RequestHandler.AUTHENTICATE_PAGES, RequestHandler.ROUTE_PAGES, RequestHandler.NOT_FOUND),
        ("/.gatekeeper", RequestHandler.NOT_FOUND, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
        ("/x/.gate/", RequestHandler.NOT_FOUND, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
        ("/.GATE/", RequestHandler.NOT_FOUND, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
        ("/.well-known/gate/jwks.json", RequestHandler.AUTHENTICATE_PAGES, RequestHandler.ROUTE_PAGES, RequestHandler.NOT_FOUND),
        ("/.well-known/other", RequestHandler.NOT_FOUND, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
        ("/robots.txt", RequestHandler.ROBOTS, RequestHandler.ROBOTS, RequestHandler.NOT_FOUND),
        ("/oauth2/callback", RequestHandler.AUTHENTICATE_PAGES, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
        ("/", RequestHandler.PORTAL_REDIRECT, RequestHandler.DATA_PLANE, RequestHandler.NOT_FOUND),
    ],
)
def test_host_and_path_determine_the_handler(
    path: str, at_auth: RequestHandler, at_app: RequestHandler, at_unknown: RequestHandler
) -> None:
    assert (owner_at(path, "auth"), owner_at(path, "app"), owner_at(path, "unknown")) == (at_auth, at_app, at_unknown)


def test_shared_host_serves_gate_pages_and_its_routes() -> None:
    assert owner_at("/.gate/", "both") is RequestHandler.AUTHENTICATE_PAGES
    assert owner_at("/oauth2/callback", "both") is RequestHandler.AUTHENTICATE_PAGES
    assert owner_at("/", "both") is RequestHandler.DATA_PLANE


@pytest.mark.parametrize("path", ["/", "/verify", "/.gate/", "/.gate/callback/", "/robots.txt", "/x", "/.gate"])
def test_every_path_of_the_forward_auth_host_is_for_other_proxies(path: str) -> None:
    found = handler_for(path, HostRoles(False, True, is_forward_auth_host=True), "/oauth2/callback")
    assert found is RequestHandler.FORWARD_AUTH


def test_the_forward_auth_host_is_alive_like_every_other() -> None:
    found = handler_for("/ping", HostRoles(False, False, is_forward_auth_host=True), "/oauth2/callback")
    assert found is RequestHandler.HEALTH


@pytest.mark.parametrize("path", ["/ping", "/healthz"])
def test_a_route_host_may_leave_the_health_paths_to_its_application(path: str) -> None:
    assert handler_for(path, HostRoles(False, True, has_health_paths=False), "/oauth2/callback") is RequestHandler.DATA_PLANE
    assert handler_for("/.gate/readyz", HostRoles(False, True, has_health_paths=False), "/oauth2/callback") is RequestHandler.READINESS


@pytest.mark.parametrize(
    ("path", "with_resources", "without"),
    [
        ("/.well-known/oauth-protected-resource", RequestHandler.ROUTE_PAGES, RequestHandler.DATA_PLANE),
        ("/.well-known/oauth-protected-resource/mcp", RequestHandler.ROUTE_PAGES, RequestHandler.DATA_PLANE),
        ("/.well-known/oauth-protected-resources", RequestHandler.DATA_PLANE, RequestHandler.DATA_PLANE),
        ("/.well-known/oauth-authorization-server", RequestHandler.DATA_PLANE, RequestHandler.DATA_PLANE),
        ("/x/.well-known/oauth-protected-resource", RequestHandler.DATA_PLANE, RequestHandler.DATA_PLANE),
    ],
)
def test_resource_metadata_exists_at_hosts_with_mcp_routes(path: str, with_resources: RequestHandler, without: RequestHandler) -> None:
    for has_resources, expected in ((True, with_resources), (False, without)):
        assert handler_for(path, HostRoles(False, True, has_protected_resources=has_resources), "/oauth2/callback") is expected


def test_server_metadata_exists_at_the_authenticate_host() -> None:
    path = "/.well-known/oauth-authorization-server"
    assert [owner_at(path, host) for host in ("auth", "both", "unknown")] == [
        RequestHandler.AUTHENTICATE_PAGES,
        RequestHandler.AUTHENTICATE_PAGES,
        RequestHandler.NOT_FOUND,
    ]
    assert owner_at(f"{path}/x", "auth") is RequestHandler.NOT_FOUND
