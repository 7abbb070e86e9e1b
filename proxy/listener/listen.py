"""Options → an open listener that runs until the process is told to stop."""

import socket
from collections.abc import Awaitable, Callable

import structlog
from twisted.internet.interfaces import IProtocolFactory
from twisted.protocols.tls import TLSMemoryBIOFactory

from gateproject.config.options import Options
from gateproject.config.types import HostPort
from gateproject.errors import ConfigError, Problem
from proxy.listener.certificates import Certificates, Wants
from proxy.listener.limits import ListenerLimits
from proxy.listener.server import ChannelFactory, GateServer, install, use_event_loop, when_running
from proxy.listener.site import Application

__all__ = ["install", "serve", "use_event_loop", "when_running"]

log = structlog.get_logger(__name__)

_BACKLOG = 1024


def serve(
    application: Application,
    options: Options,
    *,
    on_ready: Callable[[], None],
    on_stop: Callable[[], Awaitable[None]],
    wants_certificate: Wants = lambda server_name: False,
) -> None:
    """Serve until SIGTERM or SIGINT.  Raises ConfigError, with nothing started, where the address can't be had.

    `wants_certificate` says of a server name (None: none was given) whether its clients are asked for a certificate.
    `on_ready` is called on the event loop with the port open, `on_stop` is awaited after the last request.
    """
    wrap = _tls(options, wants_certificate) if not options.insecure_server else _plain
    listener = _open(options.address)
    log.info("listening", address=_shown(listener), tls=not options.insecure_server)
    server = GateServer(application, [listener], ListenerLimits.from_options(options))
    server.serve(wrap, on_ready=on_ready, on_stop=on_stop)


def _open(address: HostPort) -> socket.socket:
    try:
        if not address.host and socket.has_dualstack_ipv6():
            listener = socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        else:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            listener = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise ConfigError([Problem("address", f"can't listen on {where}: {(error.strerror or str(error)).lower()}")]) from error
    listener.setblocking(False)
    return listener


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _plain(factory: ChannelFactory) -> IProtocolFactory:
    return factory


def _tls(options: Options, wants_certificate: Wants) -> Callable[[ChannelFactory], IProtocolFactory]:
    certificates = Certificates(options.certificate_pairs, wants_certificate)
    return lambda factory: TLSMemoryBIOFactory(certificates, False, factory)
