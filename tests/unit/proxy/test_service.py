from pathlib import Path
from typing import Any

import pytest

from authorize.service import AuthorizeService
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import ForwardingResources
from proxy.reserved_paths import Owner
from proxy.service import ProxyService
from tests.support.asgi import incoming_from
from tests.support.options import make_options

PRIVATE = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True}
PUBLIC = {"from": "https://site.example.com", "to": "http://127.0.0.1:9", "allow_public_unauthenticated_access": True}


def service(directory: Path, **settings: Any) -> ProxyService:
    given = {"policy": [PRIVATE, PUBLIC], "forward_auth_url": "https://forward.example.com"} | settings
    options = make_options(directory, **given)
    authorize = AuthorizeService(options, Replica(MemoryStore()), SigningKey.from_options(options))
    resources = ForwardingResources()
    return ProxyService(options, AuthorizationPipeline(options, authorize, resources, lambda: 0.0), resources)


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("https://auth.example.com/.gate/", Owner.AUTHENTICATE_PAGES),
        ("https://AUTH.example.com:443/.gate/admin/", Owner.AUTHENTICATE_PAGES),
        ("https://auth.example.com:8443/.gate/", Owner.NOTHING),
        ("https://app.example.com/.gate/", Owner.ROUTE_PAGES),
        ("https://app.example.com/%2egate/", Owner.ROUTE_PAGES),
        ("https://app.example.com/x/../.gate/callback/", Owner.ROUTE_PAGES),
        ("https://app.example.com/secret?x=/.gate/", Owner.DATA_PLANE),
        ("https://app.example.com/secret?/ping", Owner.DATA_PLANE),
        ("https://app.example.com/robots.txt", Owner.ROBOTS),
        ("https://site.example.com/robots.txt", Owner.DATA_PLANE),
        ("https://unknown.example.com/.gate/", Owner.NOTHING),
        ("https://unknown.example.com/ping", Owner.HEALTH),
        ("https://forward.example.com/verify", Owner.FORWARD_AUTH),
        ("https://forward.example.com:8443/.gate/", Owner.FORWARD_AUTH),
    ],
)
def test_each_request_has_one_owner(url: str, owner: Owner, tmp_path: Path) -> None:
    assert service(tmp_path).owner(incoming_from(url).request) is owner


@pytest.mark.parametrize("path", ["/ping", "/healthz", "/x/../%70ing"])
def test_health_paths_of_route_hosts_may_be_the_applications(tmp_path: Path, path: str) -> None:
    left = service(tmp_path, health_paths_on_routes=False, policy=[PRIVATE | {"from": "https://*.example.com"}])
    hosts = ("app.example.com", "auth.example.com", "forward.example.com", "unknown.test")
    found = [left.owner(incoming_from(f"https://{host}{path}").request) for host in hosts]
    assert found == [Owner.DATA_PLANE, Owner.HEALTH, Owner.HEALTH, Owner.HEALTH]
    assert service(tmp_path).owner(incoming_from(f"https://app.example.com{path}").request) is Owner.HEALTH


def test_the_origin_of_a_route_host_is_its_external_one(tmp_path: Path) -> None:
    assert service(tmp_path).origin_of(incoming_from("https://app.example.com/").request) == "https://app.example.com"
