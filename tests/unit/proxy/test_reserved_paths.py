import pytest

from proxy.reserved_paths import HostFacts, Owner, owner


def owner_at(path: str, host: str) -> Owner:
    facts = {"auth": (True, False), "app": (False, True), "both": (True, True), "unknown": (False, False)}[host]
    return owner(path, HostFacts(*facts), "/oauth2/callback")


@pytest.mark.parametrize(
    ("path", "at_auth", "at_app", "at_unknown"),
    [
        ("/ping", Owner.HEALTH, Owner.HEALTH, Owner.HEALTH),
        ("/healthz", Owner.HEALTH, Owner.HEALTH, Owner.HEALTH),
        ("/ping/", Owner.NOTHING, Owner.DATA_PLANE, Owner.NOTHING),
        ("/healthz/x", Owner.NOTHING, Owner.DATA_PLANE, Owner.NOTHING),
        ("/.gate", Owner.ADD_SLASH, Owner.ADD_SLASH, Owner.NOTHING),
        ("/.gate/", Owner.AUTHENTICATE_PAGES, Owner.ROUTE_PAGES, Owner.NOTHING),
        ("/.gate/admin/", Owner.AUTHENTICATE_PAGES, Owner.ROUTE_PAGES, Owner.NOTHING),
        ("/.gatekeeper", Owner.NOTHING, Owner.DATA_PLANE, Owner.NOTHING),
        ("/x/.gate/", Owner.NOTHING, Owner.DATA_PLANE, Owner.NOTHING),
        ("/.GATE/", Owner.NOTHING, Owner.DATA_PLANE, Owner.NOTHING),
        ("/.well-known/gate/jwks.json", Owner.AUTHENTICATE_PAGES, Owner.ROUTE_PAGES, Owner.NOTHING),
        ("/.well-known/other", Owner.NOTHING, Owner.DATA_PLANE, Owner.NOTHING),
        ("/robots.txt", Owner.ROBOTS, Owner.ROBOTS, Owner.NOTHING),
        ("/oauth2/callback", Owner.AUTHENTICATE_PAGES, Owner.DATA_PLANE, Owner.NOTHING),
        ("/", Owner.TO_DASHBOARD, Owner.DATA_PLANE, Owner.NOTHING),
    ],
)
def test_host_and_path_say_whose_request_it_is(path: str, at_auth: Owner, at_app: Owner, at_unknown: Owner) -> None:
    assert (owner_at(path, "auth"), owner_at(path, "app"), owner_at(path, "unknown")) == (at_auth, at_app, at_unknown)


def test_a_host_that_is_both_serves_our_pages_and_its_routes() -> None:
    assert owner_at("/.gate/", "both") is Owner.AUTHENTICATE_PAGES
    assert owner_at("/oauth2/callback", "both") is Owner.AUTHENTICATE_PAGES
    assert owner_at("/", "both") is Owner.DATA_PLANE


@pytest.mark.parametrize("path", ["/", "/verify", "/.gate/", "/.gate/callback/", "/robots.txt", "/x", "/.gate"])
def test_every_path_of_the_forward_auth_host_is_for_other_proxies(path: str) -> None:
    found = owner(path, HostFacts(False, True, is_forward_auth_host=True), "/oauth2/callback")
    assert found is Owner.FORWARD_AUTH


def test_the_forward_auth_host_is_alive_like_every_other() -> None:
    found = owner("/ping", HostFacts(False, False, is_forward_auth_host=True), "/oauth2/callback")
    assert found is Owner.HEALTH


@pytest.mark.parametrize("path", ["/ping", "/healthz"])
def test_a_route_host_may_leave_the_health_paths_to_its_application(path: str) -> None:
    assert owner(path, HostFacts(False, True, has_health_paths=False), "/oauth2/callback") is Owner.DATA_PLANE
    assert owner("/.gate/readyz", HostFacts(False, True, has_health_paths=False), "/oauth2/callback") is Owner.READINESS
