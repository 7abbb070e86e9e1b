"""`daphne gateproject.asgi:application`: the server that Daphne's command starts where gate is its application.

Daphne's command makes its server of the class that `CommandLineInterface.server_class` names, after it has imported the application.  That
one attribute is the hook.
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
from proxy.listener.daphne_options import OWN_TLS, command_line, given_options, kind_of, problems
from proxy.listener.half_close import HalfClosingTLS
from proxy.listener.listener_context import GetState, Lifecycle, ListenerConfig, ListenerState
from proxy.listener.listeners import build_factory, has_tls
from proxy.listener.server import ChannelFactory, GateServer
from proxy.tcp_keepalive import enable_tcp_keepalive

log = structlog.get_logger(__name__)

# Those whose command was read: what it does between the import of the application and `run()` is relied upon.
VERSIONS = ("4.2.",)


def install(
    config: ListenerConfig, lifecycle: Lifecycle, options: Options | None = None, on_open: Callable[[], None] = lambda: None
) -> None:
    """Make Daphne's command start our server; `on_open` takes the other ports.  ConfigError with an unknown Daphne."""
    if not daphne.__version__.startswith(VERSIONS):
        wanted = " or ".join(f"{version}x" for version in VERSIONS)
        problem = f"gate requires Daphne {wanted}, but {daphne.__version__} is installed. Run `pip install -r requirements.txt`"
        raise ConfigError([Problem("", problem)])
    daphne.cli.CommandLineInterface.server_class = staticmethod(partial(CommandServer, config, lifecycle, options, on_open))


class CommandServer(GateServer):
    """Server of the command: its endpoints, our connections."""

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
        """Exits with one line for each option that has no effect here."""
        given = given_options(command_line(), keywords)
        if found := list(problems(given, keywords, endpoints, options)):
            sys.exit("\n".join(f"startup failed: daphne {problem}" for problem in found))
        seconds = given.get("http_timeout")
        self._config = config if seconds is None else replace(config, get_state=_with_write(config.get_state, float(seconds)))
        super().__init__(application, self._config.get_state, lifecycle, endpoints, **keywords)
        self._on_open = on_open
        self._failed: list[str] = []

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; exits with one line where a port can't be had."""
        try:
            self.serve(self._open, self._on_open)
        except ConfigError as error:
            sys.exit(f"startup failed: {'; '.join(map(str, error.problems))}")

    def _open(self, factory: ChannelFactory) -> list[IListeningPort]:
        ports: list[IListeningPort] = []
        for endpoint in self.endpoints:
            try:
                opening = serverFromString(Ports(), endpoint).listen(self._with_tls(endpoint, factory))
            except (OSError, ValueError, TypeError, LookupError, SSL.Error, crypto.Error) as error:
                raise _cant_listen(endpoint, error) from error
            opening.addCallbacks(ports.append, partial(self._note_failure, endpoint))
        if self._failed:
            raise ConfigError([Problem("", problem) for problem in self._failed])
        for port in ports:
            log.info("listening", address=_shown(port.getHost()), tls=has_tls(port.factory))
        return ports

    def _with_tls(self, endpoint: str, factory: ChannelFactory) -> IProtocolFactory:
        """TLS, and the PROXY protocol before it, as the configuration says, where the endpoint has no TLS of its own."""
        return factory if kind_of(endpoint) in OWN_TLS else build_factory(factory, self._config)

    def _note_failure(self, endpoint: str, failure: Failure) -> None:
        self._failed.append(f"can't listen on {endpoint}: {failure.getErrorMessage()}")


def _cant_listen(endpoint: str, error: Exception) -> ConfigError:
    return ConfigError([Problem("", f"daphne --endpoint {kind_of(endpoint)}: cannot open it: {error or type(error).__name__}")])


@implementer(IReactorSocket, IReactorSSL, IReactorTCP, IReactorUNIX)
class Ports:
    """Ports of endpoints, in the place of Twisted's reactor: they accept as ours do."""

    def listenTCP(self, port: int, factory: IProtocolFactory, backlog: int = BACKLOG, interface: str = "") -> IListeningPort:
        opened = BoundedAcceptPort(port, _half_closing(factory), BACKLOG, interface, reactor)
        opened.startListening()
        enable_tcp_keepalive(opened.socket)
        return opened

    def listenSSL(
        self, port: int, factory: IProtocolFactory, contextFactory: object, backlog: int = BACKLOG, interface: str = ""
    ) -> IListeningPort:
        return self.listenTCP(port, TLSMemoryBIOFactory(contextFactory, False, factory), backlog, interface)

    def listenUNIX(self, *arguments: Any, **more: Any) -> IListeningPort:
        return reactor.listenUNIX(*arguments, **more)

    def adoptStreamPort(self, descriptor: int, family: int, factory: IProtocolFactory) -> IListeningPort:
        with socket.socket(fileno=os.dup(descriptor)) as listener:  # the family is the socket's, whatever was said
            listener.setblocking(False)
            enable_tcp_keepalive(listener)
            return port_from_socket(listener, factory)


def _half_closing(factory: IProtocolFactory) -> IProtocolFactory:
    if isinstance(factory, TLSMemoryBIOFactory):  # an endpoint's own
        factory.protocol = HalfClosingTLS
    return factory


def _shown(address: Any) -> str:
    """host:port, or the name of a Unix socket."""
    name = getattr(address, "name", None)
    if name is not None:
        return os.fsdecode(name)
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


def _with_write(current: GetState, seconds: float) -> GetState:
    """State in force, with the command's bound of a whole answer."""
    known: list[tuple[ListenerState, ListenerState]] = []

    def bounded() -> ListenerState:
        configured = current()
        if not known or known[0][0] is not configured:
            known[:] = [(configured, replace(configured, limits=replace(configured.limits, write_timeout=seconds)))]
        return known[0][1]

    return bounded
