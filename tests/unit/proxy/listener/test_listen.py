"""From the options to an open port."""

import errno
import socket

import pytest

from foundation.errors import ConfigError
from foundation.values import HostPort
from proxy.listener.listen import _shown, bind, serve
from proxy.listener.state import ListenerState
from tests.support.options import make_options
from tests.support.raw_http import RawClient
from tests.unit.proxy.listener.conftest import start


async def _never_called():
    raise AssertionError("startup failed")


def test_a_taken_port_is_a_clear_error_and_nothing_starts(tmp_path):
    started: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = make_options(tmp_path, address=f"127.0.0.1:{port}")
        state = ListenerState.build(options)
        with pytest.raises(ConfigError, match=f"address: .* 127.0.0.1:{port}: another process"):
            serve(_never_called, options.address, lambda: state, on_ready=lambda: started.append("ready"), on_stop=_never_called)
    assert started == []


def test_a_port_that_needs_a_privilege_is_told_with_who_gives_it(monkeypatch):
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


@pytest.mark.parametrize(("host", "shown"), [("", ":{}"), ("::", "[::]:{}"), ("::1", "[::1]:{}"), ("127.0.0.1", "127.0.0.1:{}")])
def test_the_log_tells_both_families_from_ipv6_alone(host, shown):
    with bind(HostPort(host, 0), "address") as listener:
        assert _shown(listener) == shown.format(listener.getsockname()[1])


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


def test_the_port_answers_when_ready_is_told(tmp_path):
    child, port = start(tmp_path)
    with child, RawClient(port) as client:
        assert client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").response().status == 200
