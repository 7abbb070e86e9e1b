from pathlib import Path
from typing import Any

import pytest

from authorize.service import AuthorizeService
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.reserved_paths import RequestHandler
from proxy.service import ProxyService
from tests.support.asgi import incoming_from
from tests.support.options import make_options

PRIVATE = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True}
PUBLIC = {"from": "https://site.example.com", "to": "http://127.0.0.1:9", "allow_public_unauthenticated_access": True}


def service(directory: Path, **settings: Any) -> ProxyService:
    configured = {"policy": [PRIVATE, PUBLIC], "forward_auth_url": "https://forward.example.com"} | settings
    options = make_options(directory, **configured)
    authorize = AuthorizeService(options, Replica(MemoryStore()), SigningKey.from_options(options))
    resources = SharedResources()
    return ProxyService(options, AuthorizationPipeline(options, authorize, resources, lambda: 0.0), resources)


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("https://auth.example.com/.gate/", RequestHandler.AUTHENTICATE_PAGES),
        ("https://AUTH.example.com:443/.gate/admin/", RequestHandler.AUTHENTICATE_PAGES),
        ("https://auth.example.com:8443/.gate/", RequestHandler.NOT_FOUND),
        ("https://app.example.com/.gate/", RequestHandler.ROUTE_PAGES),
        ("https://app.example.com/%2egate/", RequestHandler.ROUTE_PAGES),
        ("https://app.example.com/x/../.gate/callback/", RequestHandler.ROUTE_PAGES),
        ("https://app.example.com/secret?x=/.gate/", RequestHandler.DATA_PLANE),
        ("https://app.example.com/secret?/ping", RequestHandler.DATA_PLANE),
        ("https://app.example.com/robots.txt", RequestHandler.ROBOTS),
        ("https://site.example.com/robots.txt", RequestHandler.DATA_PLANE),
        ("https://unknown.example.com/.gate/", RequestHandler.NOT_FOUND),
        ("https://unknown.example.com/ping", RequestHandler.HEALTH),
        ("https://forward.example.com/verify", RequestHandler.FORWARD_AUTH),
        ("https://forward.example.com:8443/.gate/", RequestHandler.FORWARD_AUTH),
    ],
)
def test_each_request_has_one_owner(url: str, owner: RequestHandler, tmp_path: Path) -> None:
    assert service(tmp_path).handler_for(incoming_from(url).request) is owner


@pytest.mark.parametrize("path", ["/ping", "/healthz", "/x/../%70ing"])
def test_health_paths_of_route_hosts_may_be_the_applications(tmp_path: Path, path: str) -> None:
    left = service(tmp_path, health_paths_on_routes=False, policy=[PRIVATE | {"from": "https://*.example.com"}])
    hosts = ("app.example.com", "auth.example.com", "forward.example.com", "unknown.test")
    found = [left.handler_for(incoming_from(f"https://{host}{path}").request) for host in hosts]
    assert found == [RequestHandler.DATA_PLANE, RequestHandler.HEALTH, RequestHandler.HEALTH, RequestHandler.HEALTH]
    assert service(tmp_path).handler_for(incoming_from(f"https://app.example.com{path}").request) is RequestHandler.HEALTH


def test_the_origin_of_a_route_host_is_its_external_one(tmp_path: Path) -> None:
    assert service(tmp_path).origin_for(incoming_from("https://app.example.com/").request) == "https://app.example.com"
