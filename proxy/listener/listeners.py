"""Listening ports, with the protocol layers below HTTP: TLS and, below TLS, the PROXY protocol."""

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
from proxy.listener.connection_preamble import PreambleFactory
from proxy.listener.event_loop import reactor_loop
from proxy.listener.half_close import HalfClosingTLS
from proxy.listener.http1.http1_channel import Channel
from proxy.listener.https_redirects import HttpsRedirects
from proxy.listener.listener_context import Lifecycle, ListenerConfig, ListenerContext, ListenerSettings, default_settings
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.proxy_protocol.header_reader import ProxyProtocolFactory
from proxy.listener.server import ChannelFactory, GateServer
from proxy.listener.tls.acme_challenge import AcmeChallengeFactory, ChallengeOnlyFactory
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.server_certificates import Certificates, ReloadableCertificates
from proxy.tcp_keepalive import enable_tcp_keepalive

log = structlog.get_logger(__name__)


def serve(application: Application, address: HostPort | socket.socket, config: ListenerConfig, lifecycle: Lifecycle) -> None:
    """Serve until SIGTERM or SIGINT.

    `address` may be a socket that is already listening. Whether the listener uses TLS is decided once, at the start.
    Raises ConfigError, with nothing started, if the address cannot be bound.
    """
    is_tls = config.get_settings().certificates is not None
    listener = address if isinstance(address, socket.socket) else bind(address, "address")
    log.info("listening", address=_format_address(listener), tls=is_tls, proxy_protocol=config.proxy_protocol)
    GateServer(application, config.get_settings, lifecycle).serve(lambda factory: [_open_port(listener, build_factory(factory, config))])


def serve_behind_envoy(
    application: Application, listener: socket.socket, passthrough: socket.socket, config: ListenerConfig, lifecycle: Lifecycle
) -> None:
    """Serve on Unix sockets, behind gate's Envoy process.

    Connections to `passthrough` are client connections that Envoy tunnels unparsed, TLS included, each with a PROXY protocol header.
    Without TLS that socket is not served.
    """
    is_tls = config.get_settings().certificates is not None

    def open_ports(factory: ChannelFactory) -> list[IListeningPort]:
        ports = [_open_port(listener, factory)]
        return [*ports, _open_port(passthrough, build_factory(factory, replace(config, proxy_protocol=True)))] if is_tls else ports

    GateServer(application, config.get_settings, lifecycle).serve(open_ports)


class PlainHttpListener:
    """Plain HTTP listener of another application on the same event loop, with the same parser and default limits."""

    def __init__(self, application: Application, listener: socket.socket):
        self._context = ListenerContext(application, default_settings)
        factory = Factory.forProtocol(partial(Channel, self._context))
        factory.noisy = False
        self._port = _open_port(listener, factory)

    def close(self) -> "asyncio.Future[None]":
        """Close the port. Await the result to be sure that the port is free."""
        closed: asyncio.Future[None] = maybeDeferred(self._port.stopListening).asFuture(reactor_loop())
        for channel in list(self._context.channels):
            channel.shut_down()
        return closed


def build_factory(factory: IProtocolFactory, config: ListenerConfig) -> IProtocolFactory:
    """Return `factory` wrapped in TLS, if the current settings have certificates, and in the PROXY protocol, if it is configured."""

    def limits() -> ListenerLimits:
        return config.get_settings().limits

    if config.get_settings().certificates is not None:
        factory = AcmeChallengeFactory(_tls(config.get_settings, factory), limits, config.acme)
    return ProxyProtocolFactory(factory, limits) if config.proxy_protocol else factory


def has_tls(factory: IProtocolFactory) -> bool:
    """Return whether the connections of this factory use TLS, after any preamble."""
    while isinstance(factory, PreambleFactory):
        factory = factory.factory
    return isinstance(factory, TLSMemoryBIOFactory)


def _tls(get_settings: Callable[[], ListenerSettings], factory: IProtocolFactory) -> IProtocolFactory:
    def certificates() -> Certificates:
        current = get_settings().certificates
        if current is None:
            raise RuntimeError("a listener cannot change between TLS and plain HTTP")
        return current

    tls = TLSMemoryBIOFactory(ReloadableCertificates(certificates), False, factory)
    tls.protocol = HalfClosingTLS
    return tls


def serve_https_redirects(address: HostPort, headers: Callable[[], Mapping[str, str]], acme: AcmeState | None = None) -> PlainHttpListener:
    """Open the listener that redirects HTTP to HTTPS. Raises ConfigError if the address cannot be bound."""
    listener = bind(address, "http_redirect_addr")
    log.info("redirecting http to https", address=_format_address(listener))
    return PlainHttpListener(HttpsRedirects(headers, acme), listener)


def serve_acme_challenges(listener: socket.socket, limits: Callable[[], ListenerLimits], acme: AcmeState) -> None:
    """Answer TLS-ALPN-01 challenges, and nothing else, on a listening socket. Needs the running event loop."""
    port_from_socket(listener, ChallengeOnlyFactory(limits, acme))


def bind(address: HostPort, setting: str) -> socket.socket:
    """Return a listening socket. Raises ConfigError, with the name of the setting, if the address cannot be bound."""
    try:
        if not address.host and socket.has_dualstack_ipv6():
            listener = socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
        else:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            [Problem(setting, f"can't listen on {address.host}:{address.port}: {_bind_error_hint(error, address.port)}")]
        ) from error
    listener.setblocking(False)
    # Without keepalive a client that disappears while it waits, for example for an idle event stream, is never detected.
    enable_tcp_keepalive(listener)
    return listener


def _bind_error_hint(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"another process uses the port (`ss -ltnp 'sport = :{port}'` shows it)"
    if error.errno in (errno.EACCES, errno.EPERM):
        alternative = f"or run `sysctl net.ipv4.ip_unprivileged_port_start={port}`"
        return f"the port needs a privilege. Use the units of deploy/systemd or a container, {alternative}"
    return (error.strerror or str(error)).lower()


def _format_address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if host == "::" and not listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        return f":{port}"  # dual stack; `[::]` in the configuration is IPv6 only
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _open_port(listener: socket.socket, factory: IProtocolFactory) -> IListeningPort:
    """Open a port with a duplicate of the socket's descriptor, and close the socket."""
    port = port_from_socket(listener, factory)
    listener.close()
    return port
