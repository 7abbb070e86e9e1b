"""Server of `daphne gateproject.asgi:application`.

After importing the application, Daphne's command creates its server from `CommandLineInterface.server_class`, which gate replaces.
"""

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import daphne
import daphne.cli
import structlog
from OpenSSL import SSL, crypto
from twisted.internet import reactor
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorSocket, IReactorSSL, IReactorTCP, IReactorUNIX
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from config.options import Options
from foundation.errors import ConfigError, Problem
from foundation.web.asgi_types import Application
from proxy.listener.bounded_accept import BACKLOG, BoundedAcceptPort, port_from_socket
from proxy.listener.daphne_options import TLS_ENDPOINTS, command_line, endpoint_scheme, parse_options, validate_options
from proxy.listener.half_close import HalfClosingTLS
from proxy.listener.listener_context import GetListenerSettings, Lifecycle, ListenerConfig, ListenerSettings
from proxy.listener.listeners import build_factory, has_tls
from proxy.listener.server import ChannelFactory, GateServer
from proxy.tcp_keepalive import enable_tcp_keepalive

log = structlog.get_logger(__name__)

# Tested versions, because gate relies on what the command does between importing the application and `run()`.
VERSIONS = ("4.2.",)


def install(
    config: ListenerConfig, lifecycle: Lifecycle, options: Options | None = None, on_open: Callable[[], None] = lambda: None
) -> None:
    """Make Daphne's command start gate's server. `on_open` opens the other ports.

    Raises ConfigError if the Daphne version is not supported.
    """
    if not daphne.__version__.startswith(VERSIONS):
        required = " or ".join(f"{version}x" for version in VERSIONS)
        problem = f"gate requires Daphne {required}, but {daphne.__version__} is installed. Run `pip install -r requirements.txt`"
        raise ConfigError([Problem("", problem)])
    daphne.cli.CommandLineInterface.server_class = staticmethod(partial(DaphneIntegration, config, lifecycle, options, on_open))


class DaphneIntegration(GateServer):
    """Server of Daphne's command, with its endpoints and gate's connections."""

    def __init__(
        self,
        config: ListenerConfig,
        lifecycle: Lifecycle,
        options: Options | None,
        on_open: Callable[[], None],
        application: Application,
        endpoints: list[str],
        **keywords: Any,
    ):
        """Exit with one line per option that has no effect in gate."""
        options_set = parse_options(command_line(), keywords)
        if problems := list(validate_options(options_set, keywords, endpoints, options)):
            sys.exit("\n".join(f"startup failed: daphne {problem}" for problem in problems))
        seconds = options_set.get("http_timeout")
        self._config = config if seconds is None else replace(config, get_settings=_with_write_timeout(config.get_settings, float(seconds)))
        super().__init__(application, self._config.get_settings, lifecycle, endpoints, **keywords)
        self._on_open = on_open
        self._failed: list[str] = []

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT. Exit with one line if a port cannot be opened."""
        try:
            self.serve(self._open, self._on_open)
        except ConfigError as error:
            sys.exit(f"startup failed: {'; '.join(map(str, error.problems))}")

    def _open(self, factory: ChannelFactory) -> list[IListeningPort]:
        ports: list[IListeningPort] = []
        for endpoint in self.endpoints:
            try:
                opening = serverFromString(EndpointReactor(), endpoint).listen(self._with_tls(endpoint, factory))
            except (OSError, ValueError, TypeError, LookupError, SSL.Error, crypto.Error) as error:
                raise _listen_error(endpoint, error) from error
            opening.addCallbacks(ports.append, partial(self._on_listen_failed, endpoint))
        if self._failed:
            raise ConfigError([Problem("", problem) for problem in self._failed])
        for port in ports:
            log.info("listening", address=_format_address(port.getHost()), tls=has_tls(port.factory))
        return ports

    def _with_tls(self, endpoint: str, factory: ChannelFactory) -> IProtocolFactory:
        """Wrap the factory in the configured TLS and PROXY protocol, unless the endpoint has its own TLS."""
        return factory if endpoint_scheme(endpoint) in TLS_ENDPOINTS else build_factory(factory, self._config)

    def _on_listen_failed(self, endpoint: str, failure: Failure) -> None:
        self._failed.append(f"can't listen on {endpoint}: {failure.getErrorMessage()}")


def _listen_error(endpoint: str, error: Exception) -> ConfigError:
    return ConfigError([Problem("", f"daphne --endpoint {endpoint_scheme(endpoint)}: cannot open it: {error or type(error).__name__}")])


@implementer(IReactorSocket, IReactorSSL, IReactorTCP, IReactorUNIX)
class EndpointReactor:
    """Reactor for Twisted's endpoints, whose ports accept like gate's."""

    def listenTCP(self, port: int, factory: IProtocolFactory, backlog: int = BACKLOG, interface: str = "") -> IListeningPort:
        opened = BoundedAcceptPort(port, _half_closing(factory), BACKLOG, interface, reactor)
        opened.startListening()
        enable_tcp_keepalive(opened.socket)
        return opened

    def listenSSL(
        self, port: int, factory: IProtocolFactory, contextFactory: object, backlog: int = BACKLOG, interface: str = ""
    ) -> IListeningPort:
        return self.listenTCP(port, TLSMemoryBIOFactory(contextFactory, False, factory), backlog, interface)

    def listenUNIX(self, *arguments: Any, **keywords: Any) -> IListeningPort:
        return reactor.listenUNIX(*arguments, **keywords)

    def adoptStreamPort(self, descriptor: int, family: int, factory: IProtocolFactory) -> IListeningPort:
        with socket.socket(fileno=os.dup(descriptor)) as listener:  # the family is that of the socket, not the argument
            listener.setblocking(False)
            enable_tcp_keepalive(listener)
            return port_from_socket(listener, factory)


def _half_closing(factory: IProtocolFactory) -> IProtocolFactory:
    if isinstance(factory, TLSMemoryBIOFactory):  # of an `ssl:` endpoint
        factory.protocol = HalfClosingTLS
    return factory


def _format_address(address: Any) -> str:
    """Return host:port, or the path of a Unix socket."""
    name = getattr(address, "name", None)
    if name is not None:
        return os.fsdecode(name)
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


def _with_write_timeout(get_settings: GetListenerSettings, seconds: float) -> GetListenerSettings:
    """Return the settings in force, with the write timeout of the command line."""
    cached: list[tuple[ListenerSettings, ListenerSettings]] = []

    def get_limited_settings() -> ListenerSettings:
        settings = get_settings()
        if not cached or cached[0][0] is not settings:
            cached[:] = [(settings, replace(settings, limits=replace(settings.limits, write_timeout=seconds)))]
        return cached[0][1]

    return get_limited_settings
