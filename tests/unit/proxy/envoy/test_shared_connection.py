"""Requests that must not end together share no connection that may be cut."""

import pytest

from proxy.envoy.internal_listener import InternalListener
from proxy.envoy.resources.internal_headers import AUTHORIZED, CLUSTER, DOWNSTREAM_INFO
from tests.support.asgi import Answer, chunked_receive, http_scope
from tests.unit.proxy.envoy.conftest import MakeRequest
from tests.unit.proxy.envoy.stage import MARK, Stage
from tests.unit.proxy.envoy.test_internal_listener import Application, Service, no_one


@pytest.mark.parametrize(
    ("protocol", "peer", "server_name", "is_gates"),
    [
        ("HTTP/2", "10.0.0.9:5000", "open.example.com", True),
        ("HTTP/1.1", "10.0.0.9:5000", "open.example.com", False),
        ("HTTP/2", "192.0.2.7:5000", "open.example.com", False),
        ("HTTP/2", "192.0.2.7:5000", "auth.example.com", True),
    ],
)
async def test_gate_forwards_requests_on_shared_connections(
    stage: Stage, send_request: MakeRequest, protocol: str, peer: str, server_name: str, is_gates: bool
) -> None:
    reported = await stage.send_request(send_request("/in", host="open.example.com", protocol=protocol, peer=peer, server_name=server_name))
    assert (reported[CLUSTER] == b"gate") is is_gates


MISDIRECTED = [
    ("auth.example.com", "HTTP/2", "app.example.com", "192.0.2.7", True),
    ("AUTH.example.com.:8443", "HTTP/2", "app.example.com", "192.0.2.7", True),
    ("app.example.com", "HTTP/2", "Auth.example.com", "192.0.2.7", True),
    ("auth.example.com", "HTTP/2", "auth.example.com", "192.0.2.7", False),
    ("app.example.com", "HTTP/2", "wiki.example.com", "192.0.2.7", False),
    ("auth.example.com", "HTTP/2", "", "192.0.2.7", False),
    ("auth.example.com", "HTTP/1.1", "app.example.com", "192.0.2.7", False),
    ("auth.example.com", "HTTP/2", "app.example.com", "192.0.2.9", False),
]


@pytest.mark.parametrize(("host", "protocol", "server_name", "peer", "is_misdirected"), MISDIRECTED)
async def test_sign_in_pages_and_applications_share_no_connection_of_http_2(
    host: str, protocol: str, server_name: str, peer: str, is_misdirected: bool
) -> None:
    application, answer = Application(), Answer()
    known = (DOWNSTREAM_INFO.encode(), f"{peer}:5000 {peer}:5000 {protocol} / {server_name}".encode())
    scope = http_scope(f"http://{host}/.gate/sign_out", client="") | {"client": None, "extensions": {}}
    scope["headers"] = [(b"host", host.encode()), known, (AUTHORIZED.encode(), MARK.encode())]
    await InternalListener(application, Service, MARK, "https", no_one)(scope, chunked_receive(), answer.send)
    assert (len(application.scopes), answer.status if is_misdirected else None) == ((0, 421) if is_misdirected else (1, None))
