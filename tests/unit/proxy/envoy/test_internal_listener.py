"""Only our Envoy comes in, with the client that it has seen."""

import asyncio
from ipaddress import ip_network
from typing import Any

import pytest

from foundation.web.brand import EMPTY_SITE_INFO
from proxy.client_address import trusted_peers
from proxy.envoy.internal_listener import InternalListener, MissingSecret
from proxy.envoy.resources.internal_headers import AUTHORIZED, DOWNSTREAM_INFO, Address
from proxy.incoming_request import TLS_EXTENSION
from proxy.service import ProxyService
from tests.support.asgi import Answer, chunked_receive, http_scope
from tests.unit.proxy.envoy.stage import MARK

KNOWN = (DOWNSTREAM_INFO.encode(), b"192.0.2.7:5000 192.0.2.7:5000 HTTP/1.1 / app.example.com")


class Service(ProxyService):
    """Of an authenticate host, with one trusted proxy."""

    def __init__(self) -> None:
        self._trusted, self._authenticate_host = trusted_peers((ip_network("192.0.2.9"),)), "auth.example.com"
        self._site = EMPTY_SITE_INFO


class Application:
    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope: dict[str, Any], receive: object, send: object) -> None:
        self.scopes.append(scope)


def from_envoy(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    scope = http_scope("http://app.example.com/", client="") | {"client": None, "extensions": {"gate.tunnel": {}}}
    return scope | {"headers": [*scope["headers"], *headers]}


async def test_restores_the_client_request() -> None:
    application = Application()
    added = ((b"x-forwarded-proto", b"https"), (b"x-envoy-internal", b"true"), (b"x-forwarded-client-cert", b"x"), (b"accept", b"*/*"))
    secret = (AUTHORIZED.encode(), MARK.encode())
    scope = from_envoy(secret, KNOWN, (b"x-gate-edge-proto", b"http"), (b"x-gate-edge-cluster", b"gate"), *added)
    await InternalListener(application, Service, MARK, "https", no_one)(scope, chunked_receive(), Answer().send)
    (scope,) = application.scopes
    assert (scope["client"], scope["scheme"]) == (["192.0.2.7", 5000], "https")
    assert scope["extensions"] == {"gate.tunnel": {}, TLS_EXTENSION: {"server_name": "app.example.com", "chain": ()}}
    assert scope["headers"] == [(b"host", b"app.example.com"), (b"accept", b"*/*"), (b"x-forwarded-proto", b"http")]


async def test_restores_handshake_headers_removed_by_envoy() -> None:
    application = Application()
    known = (DOWNSTREAM_INFO.encode(), b"192.0.2.7:5000 192.0.2.7:5000 HTTP/1.1 /chunked app.example.com")
    scope = from_envoy((AUTHORIZED.encode(), MARK.encode()), known)
    await InternalListener(application, Service, MARK, "https", no_one)(scope, chunked_receive(), Answer().send)
    assert (b"transfer-encoding", b"chunked") in application.scopes[0]["headers"]


async def no_one(peers: list[Address]) -> int:
    raise AssertionError(f"{peers} were cut")


def connect(protocol: bytes, takeover: dict[str, Any]) -> dict[str, Any]:
    known = (DOWNSTREAM_INFO.encode(), b"192.0.2.7:5000 192.0.2.8:6000 %b / db.example.com" % protocol)
    return from_envoy((AUTHORIZED.encode(), MARK.encode()), known) | {"method": "CONNECT", "extensions": {"gate.tunnel": takeover}}


async def test_tunnel_has_no_half_close_and_none_over_http2() -> None:
    found = []
    for protocol in (b"HTTP/1.1", b"HTTP/2"):
        application = Application()
        scope = connect(protocol, {"take_over": None, "half_closes": True})
        await InternalListener(application, Service, MARK, "https", no_one)(scope, chunked_receive(), Answer().send)
        found.append(application.scopes[0]["extensions"].get("gate.tunnel"))
    assert (found[0]["half_closes"], found[1]) == (False, None)


async def test_aborted_tunnel_is_reset_at_envoy_first() -> None:
    done: list[object] = []

    class End:
        def abort(self) -> None:
            done.append("aborted")

        def close(self) -> None:
            done.append("closed")

    async def reset_connections(peers: list[Address]) -> int:
        await asyncio.sleep(0)
        done.append(peers)
        return 1

    async def application(scope: dict[str, Any], receive: object, send: object) -> None:
        tunnel, sent_ahead = scope["extensions"]["gate.tunnel"]["take_over"]([], None)
        assert sent_ahead == b"ahead"
        tunnel.abort()
        tunnel.abort()
        tunnel.close()

    takeover = {"take_over": lambda headers, protocol: (End(), b"ahead"), "half_closes": True}
    await InternalListener(application, Service, MARK, "https", reset_connections)(
        connect(b"HTTP/1.1", takeover), chunked_receive(), Answer().send
    )
    assert done == [[("192.0.2.8", 6000)], "aborted"]


async def test_passthrough_connection_is_unchanged() -> None:
    application = Application()
    scope = from_envoy((AUTHORIZED.encode(), b"guess"), KNOWN) | {"scheme": "https"}
    await InternalListener(application, Service, MARK, "https", no_one)(scope, chunked_receive(), Answer().send)
    assert application.scopes == [scope]


async def test_request_without_secret_is_rejected() -> None:
    application = Application()
    internal_listener = InternalListener(application, Service, MARK, "https", no_one)
    for secrets in ((), (b"guess",), (b"",), (MARK.encode(), b"other")):
        with pytest.raises(MissingSecret):
            await internal_listener(from_envoy(KNOWN, *((AUTHORIZED.encode(), each) for each in secrets)), chunked_receive(), Answer().send)
    assert application.scopes == []
