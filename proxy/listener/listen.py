"""Listener: from options to an open port that is served until the process is told to stop."""

import errno
import socket
from collections.abc import Callable, Mapping

import structlog
from twisted.internet.interfaces import IListeningPort, IProtocolFactory

from foundation.errors import ConfigError, Problem
from foundation.values import HostPort
from foundation.web.asgi import Application
from proxy.keep_alive import keep_alive
from proxy.listener.context import Ended, uncounted
from proxy.listener.daphne_command import CommandedGate, install
from proxy.listener.https_redirects import HttpsRedirects
from proxy.listener.limits import ListenerLimits
from proxy.listener.server import (
    BACKLOG,
    ChannelFactory,
    GateServer,
    OnStop,
    PlainListener,
    adopted,
    at_once,
    renew_event_loop,
    run,
    use_event_loop,
    when_running,
)
from proxy.listener.state import ListenerState
from proxy.listener.tls.acme_challenge import ChallengesAlone
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.wrapping import wrapped

__all__ = [
    "CommandedGate",
    "PlainListener",
    "answer_authority",
    "bind",
    "install",
    "lead_to_https",
    "renew_event_loop",
    "run",
    "serve",
    "serve_behind",
    "use_event_loop",
    "when_running",
]

log = structlog.get_logger(__name__)


def serve(
    application: Application,
    address: HostPort | socket.socket,
    current: Callable[[], ListenerState],
    *,
    on_ready: Callable[[], None],
    on_stop: OnStop,
    before_stop: OnStop = at_once,
    is_behind_balancer: bool = False,
    obtained: AcmeState | None = None,
    ended: Ended = uncounted,
) -> None:
    """Serve until SIGTERM or SIGINT.  Raises ConfigError, with nothing started, where the address can't be had.

    `address` may be a socket that listens already.  `current` is asked at each connection, so that a reload changes certificates and
    limits; whether there is TLS at all it says once.
    `is_behind_balancer`: connections begin with the PROXY protocol.  `on_ready` is called on the event loop with the port open,
    `before_stop` is awaited while it still is, `on_stop` after the last request; `ended` is told of each.
    """
    is_tls = current().certificates is not None
    listener = address if isinstance(address, socket.socket) else bind(address, "address")
    log.info("listening", address=_shown(listener), tls=is_tls, proxy_protocol=is_behind_balancer)

    def wrap(factory: ChannelFactory) -> IProtocolFactory:
        return wrapped(factory, current, is_behind_balancer=is_behind_balancer, obtained=obtained)

    server = _server(application, listener, current, ended)
    server.serve(_opener(listener, wrap), on_ready=on_ready, on_stop=on_stop, before_stop=before_stop)


def serve_behind(
    application: Application,
    listener: socket.socket,
    unread: socket.socket,
    current: Callable[[], ListenerState],
    *,
    on_ready: Callable[[], None],
    on_stop: OnStop,
    before_stop: OnStop,
    obtained: AcmeState | None = None,
    ended: Ended = uncounted,
) -> None:
    """Serve on Unix sockets, for a process of ours that people's connections end at.  `before_stop` is awaited first.

    Connections to `unread` are people's as they came, TLS and all, each behind a PROXY header; without TLS there are none.
    """
    server, is_tls = _server(application, listener, current, ended), current().certificates is not None
    open_plain = _opener(listener, lambda factory: factory)
    open_unread = _opener(unread, lambda factory: wrapped(factory, current, is_behind_balancer=True, obtained=obtained))

    def open_ports(factory: ChannelFactory) -> list[IListeningPort]:
        return open_plain(factory) + (open_unread(factory) if is_tls else [])

    server.serve(open_ports, on_ready=on_ready, on_stop=on_stop, before_stop=before_stop)


def lead_to_https(address: HostPort, headers: Callable[[], Mapping[str, str]], obtained: AcmeState | None = None) -> PlainListener:
    """HTTPS redirect listener, a plain one of its own; ConfigError where the address can't be had."""
    listener = bind(address, "http_redirect_addr")
    log.info("redirecting http to https", address=_shown(listener))
    return PlainListener(HttpsRedirects(headers, obtained), listener)


def answer_authority(listener: socket.socket, limits: Callable[[], ListenerLimits], obtained: AcmeState) -> None:
    """Answer TLS-ALPN-01 challenges on a listening socket, and nobody else; on the running event loop."""
    adopted(listener, ChallengesAlone(limits, obtained))


def bind(address: HostPort, setting: str) -> socket.socket:
    """Listening socket; ConfigError, in the name of the setting, where the address can't be had."""
    try:
        if not address.host and socket.has_dualstack_ipv6():
            listener = socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
        else:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError([Problem(setting, f"can't listen on {address.host}:{address.port}: {_why_not(error, address.port)}")]) from error
    listener.setblocking(False)
    # A client that vanished while it waited, for a quiet event stream say, would never be noticed.
    keep_alive(listener)
    return listener


def _why_not(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"another process uses the port (`ss -ltnp 'sport = :{port}'` shows it)"
    if error.errno in (errno.EACCES, errno.EPERM):
        cure = f"or run `sysctl net.ipv4.ip_unprivileged_port_start={port}`"
        return f"the port needs a privilege. Use the units of deploy/systemd or a container, {cure}"
    return (error.strerror or str(error)).lower()


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if host == "::" and not listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        return f":{port}"  # IPv4, too; `[::]` in the configuration is IPv6 alone
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _server(application: Application, listener: socket.socket, current: Callable[[], ListenerState], ended: Ended) -> GateServer:
    return GateServer(application, [f"socket:{listener.getsockname()}"], current, ended)


def _opener(
    listener: socket.socket, wrap: Callable[[ChannelFactory], IProtocolFactory]
) -> Callable[[ChannelFactory], list[IListeningPort]]:
    """Opener of the one port of a socket; `wrap` may put TLS around the connections."""

    def open_port(factory: ChannelFactory) -> list[IListeningPort]:
        port = adopted(listener, wrap(factory))
        listener.close()
        return [port]

    return open_port
