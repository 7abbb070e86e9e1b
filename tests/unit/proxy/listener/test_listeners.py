"""From the options to an open port, and what comes before HTTP on it."""

import errno
import socket

import pytest
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory

from foundation.errors import ConfigError
from foundation.values import HostPort
from proxy.listener.listener_context import Lifecycle, ListenerConfig, ListenerSettings
from proxy.listener.listeners import _format_address, bind, build_factory, has_tls, serve
from proxy.listener.proxy_protocol.header_reader import ProxyProtocolFactory
from proxy.listener.tls.acme_challenge import AcmeChallengeFactory
from tests.support.certs import certificate_files
from tests.support.options import make_options
from tests.support.raw_http import RawClient
from tests.unit.proxy.listener.conftest import start


class NeverStarted(Lifecycle):
    def on_ready(self) -> None:
        raise AssertionError("startup failed")


def test_port_in_use_is_a_clear_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as accepted:
        port = accepted.getsockname()[1]
        options = make_options(tmp_path, address=f"127.0.0.1:{port}")
        state = ListenerSettings.build(options)
        with pytest.raises(ConfigError, match=f"address: .* 127.0.0.1:{port}: another process"):
            serve(None, options.address, ListenerConfig(lambda: state), NeverStarted())


def test_privileged_port_error_has_a_remedy(monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refused)
    with pytest.raises(ConfigError, match=r"address: can't listen on :443: the port needs a privilege.*ip_unprivileged_port_start=443"):
        bind(HostPort("", 443), "address")


def test_an_address_without_a_host_serves_both_families():
    with bind(HostPort("", 0), "address") as listener:
        port = listener.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
        socket.create_connection(("::1", port)).close()


@pytest.mark.parametrize(("host", "presented"), [("", ":{}"), ("::", "[::]:{}"), ("::1", "[::1]:{}"), ("127.0.0.1", "127.0.0.1:{}")])
def test_log_distinguishes_dual_stack_from_ipv6(host, presented):
    with bind(HostPort(host, 0), "address") as listener:
        assert _format_address(listener) == presented.format(listener.getsockname()[1])


def test_a_client_that_vanished_is_looked_for():
    with bind(HostPort("127.0.0.1", 0), "address") as listener:
        listener.setblocking(True)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as connection:
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


def test_an_ipv6_address_can_be_listened_on():
    with bind(HostPort("::1", 0), "address") as listener:
        socket.create_connection(("::1", listener.getsockname()[1])).close()


def test_an_ipv4_client_of_a_dual_stack_listener_is_an_ipv4_client(tmp_path):
    child, port = start(tmp_path, host="")
    with child, RawClient(port) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").response()
        assert b'"client": ["127.0.0.1", ' in client.send(b"GET /_/state HTTP/1.1\r\nHost: x\r\n\r\n").response().body


def test_port_is_open_when_ready(tmp_path):
    child, port = start(tmp_path)
    with child, RawClient(port) as client:
        assert client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").response().status == 200


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
def test_factory_layers_proxy_header_tls_http(tmp_path, *, is_tls: bool, is_behind: bool) -> None:
    files = certificate_files(tmp_path, "app.example.com")
    tls = {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    state, http = ListenerSettings.build(make_options(tmp_path, **(tls if is_tls else {}))), Factory()
    found = build_factory(http, ListenerConfig(lambda: state, proxy_protocol=is_behind))
    assert has_tls(found) == is_tls
    layers = []
    while found is not http:
        layers.append(type(found))
        found = found.wrappedFactory if isinstance(found, TLSMemoryBIOFactory) else found.factory
    assert layers == [ProxyProtocolFactory] * is_behind + [AcmeChallengeFactory, TLSMemoryBIOFactory] * is_tls
