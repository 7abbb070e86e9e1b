"""Listeners: from options to open ports, with what comes before HTTP: TLS and, before that, the PROXY protocol."""

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import structlog
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory

from foundation.errors import ConfigError, Problem
from foundation.values import HostPort
from foundation.web.asgi_types import Application
from proxy.listener.bounded_accept import BACKLOG, port_from_socket
from proxy.listener.event_loop import reactor_loop
from proxy.listener.half_close import HalfClosingTLS
from proxy.listener.http1.http1_channel import Channel
from proxy.listener.https_redirects import HttpsRedirects
from proxy.listener.listener_context import Lifecycle, ListenerConfig, ListenerContext, ListenerState, default_state
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.preamble import FirstBytesFactory
from proxy.listener.proxy_protocol.header_reader import ProxyProtocolFactory
from proxy.listener.server import ChannelFactory, GateServer
from proxy.listener.tls.acme_challenge import AcmeChallengeFactory, ChallengesAlone
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.server_certificates import Certificates, ReloadableCertificates
from proxy.tcp_keepalive import enable_tcp_keepalive

log = structlog.get_logger(__name__)


def serve(application: Application, address: HostPort | socket.socket, config: ListenerConfig, lifecycle: Lifecycle) -> None:
    """Serve until SIGTERM or SIGINT.  Raise ConfigError, with nothing started, where the address can't be had.

    `address` may be a socket that listens already.  Whether there is TLS at all, the state says once.
    """
    is_tls = config.get_state().certificates is not None
    listener = address if isinstance(address, socket.socket) else bind(address, "address")
    log.info("listening", address=_shown(listener), tls=is_tls, proxy_protocol=config.proxy_protocol)
    GateServer(application, config.get_state, lifecycle).serve(lambda factory: [_take(listener, build_factory(factory, config))])


def serve_behind_envoy(
    application: Application, listener: socket.socket, passthrough: socket.socket, config: ListenerConfig, lifecycle: Lifecycle
) -> None:
    """Serve on Unix sockets, for a process of ours that people's connections end at.

    Connections to `unread` are people's as they came, TLS and all, each behind a PROXY header; without TLS there are none.
    """
    is_tls = config.get_state().certificates is not None

    def open_ports(factory: ChannelFactory) -> list[IListeningPort]:
        ports = [_take(listener, factory)]
        return [*ports, _take(passthrough, build_factory(factory, replace(config, proxy_protocol=True)))] if is_tls else ports

    GateServer(application, config.get_state, lifecycle).serve(open_ports)


class PlainHttpListener:
    """Second listener, plain, of another application on the same loop: as strict and as patient as the main one."""

    def __init__(self, application: Application, listener: socket.socket):
        self._context = ListenerContext(application, default_state)
        factory = Factory.forProtocol(partial(Channel, self._context))
        factory.noisy = False
        self._port = _take(listener, factory)

    def close(self) -> "asyncio.Future[None]":
        """Close; awaited by who needs the port to be free."""
        closed: asyncio.Future[None] = maybeDeferred(self._port.stopListening).asFuture(reactor_loop())
        for channel in list(self._context.channels):
            channel.finish_soon()
        return closed


def build_factory(factory: IProtocolFactory, config: ListenerConfig) -> IProtocolFactory:
    """Return a factory behind TLS, where the state has certificates now, and behind the PROXY protocol."""

    def limits() -> ListenerLimits:
        return config.get_state().limits

    if config.get_state().certificates is not None:
        factory = AcmeChallengeFactory(_tls(config.get_state, factory), limits, config.acme)
    return ProxyProtocolFactory(factory, limits) if config.proxy_protocol else factory


def has_tls(factory: IProtocolFactory) -> bool:
    """Whether connections of this factory are TLS, whatever comes before it."""
    while isinstance(factory, FirstBytesFactory):
        factory = factory.factory
    return isinstance(factory, TLSMemoryBIOFactory)


def _tls(get_state: Callable[[], ListenerState], factory: IProtocolFactory) -> IProtocolFactory:
    def certificates() -> Certificates:
        found = get_state().certificates
        if found is None:
            raise RuntimeError("a listener that began with TLS keeps it")
        return found

    tls = TLSMemoryBIOFactory(ReloadableCertificates(certificates), False, factory)
    tls.protocol = HalfClosingTLS
    return tls


def serve_https_redirects(address: HostPort, headers: Callable[[], Mapping[str, str]], acme: AcmeState | None = None) -> PlainHttpListener:
    """HTTPS redirect listener, a plain one of its own; ConfigError where the address can't be had."""
    listener = bind(address, "http_redirect_addr")
    log.info("redirecting http to https", address=_shown(listener))
    return PlainHttpListener(HttpsRedirects(headers, acme), listener)


def serve_acme_challenges(listener: socket.socket, limits: Callable[[], ListenerLimits], acme: AcmeState) -> None:
    """Answer TLS-ALPN-01 challenges on a listening socket, and nobody else; on the running event loop."""
    port_from_socket(listener, ChallengesAlone(limits, acme))


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
    enable_tcp_keepalive(listener)
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


def _take(listener: socket.socket, factory: IProtocolFactory) -> IListeningPort:
    """Return the port of a socket, which is closed: the port has its own descriptor."""
    port = port_from_socket(listener, factory)
    listener.close()
    return port
