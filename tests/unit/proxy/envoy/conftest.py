"""Check requests as Envoy sends them."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from authorize.service import AuthorizeService
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from proxy.envoy.ext_authz_server import ExtAuthzServer
from proxy.envoy.proxied.active_requests import ActiveRequests
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.service import ProxyService
from tests.support.options import make_options
from tests.support.signed_in import sign_in
from tests.unit.proxy.envoy.stage import MARK, ROUTES, TOKEN, NoConnections, Stage

MakeRequest = Callable[..., bytes]
NUMBERS = count(1)


def requests_seen(
    path: str = "/",
    *headers: tuple[str, str],
    host: str = "app.example.com",
    method: str = "GET",
    peer: str = "192.0.2.7:5000",
    direct: str = "",
    protocol: str = "HTTP/1.1",
    server_name: str = "app.example.com",
    has_body: bool = False,
) -> bytes:
    """A question of Envoy's."""
    length = dict(headers).get("content-length", "")
    headers = tuple(pair for pair in headers if pair[0] != "content-length")
    facts = f"{peer} {direct or peer} {protocol} {length}/{'chunked' if has_body and not length else ''} {server_name}"
    number = f"n-{next(NUMBERS)}"
    reported = (
        ("content-length", "0"),
        ("x-gate-edge-facts", facts),
        ("x-gate-edge-number", number),
        ("x-gate-edge-token", TOKEN),
        ("x-envoy-internal", "true"),
    )
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", *(f"{name}: {value}" for name, value in (*reported, *headers)), ""]
    return "\r\n".join(lines).encode("latin-1")


@pytest.fixture
def send_request() -> MakeRequest:
    return requests_seen


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    options = make_options(tmp_path, policy=ROUTES, data_plane="envoy", jwt_claims_headers=["email"], trusted_proxies=["10.0.0.9"])
    broker, resources = MemoryStore(), SharedResources()
    authorize = AuthorizeService(options, Replica(broker), SigningKey.from_options(options))
    service = ProxyService(options, AuthorizationPipeline(options, authorize, resources, lambda: 0.0), resources)
    connections = NoConnections()
    forwarded = ActiveRequests(connections, lambda: 0.0)
    ext_authz = ExtAuthzServer(
        lambda: service, forwarded, lambda upstream, route: f"to-{upstream.host}-{route.upstream_http2}", TOKEN, MARK, "https"
    )
    return Stage(ext_authz, forwarded, connections, await sign_in(broker, options), resources.streams)


def call_of_grpc(host: str) -> bytes:
    return requests_seen("/in/S/M", ("content-type", "application/grpc"), ("te", "trailers"), host=host, method="POST", has_body=True)


@pytest.fixture
def grpc_call() -> MakeRequest:
    return call_of_grpc
