"""Third-party ASGI servers (uvicorn, hypercorn, Daphne's own classes): start-up, and a report of missing features.

Such a server parses HTTP itself. Information that its messages lack is treated as absent.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from config.options import Options
from foundation.errors import ConfigError, Problem
from foundation.system.fd_limit import raise_limit
from foundation.telemetry.output import drain_output
from foundation.web.asgi_types import Application, Receive, Send
from gateproject.process.runtime import Runtime
from gateproject.process.services import GRPC_ONLY_ROLES
from proxy.consumers import WebsocketConsumer
from proxy.listener.http1.request_head import RequestRejected
from proxy.third_party_asgi.http_adapter import send_rejection, serve_http

log = structlog.get_logger(__name__)

# Features of gate's listener that are missing here (docs/operations/servers.md).
UNSUPPORTED_FEATURES = (
    *(
        "backpressure and timeouts depend on the server",
        "TCP tunnels are not supported",
        "upgrades other than websockets are not supported",
    ),
    *("client certificates are not supported: such routes respond with 495", "an aborted response ends as the server implements it"),
)
# Settings of gate's listener, reported if they are set.
LISTENER_SETTINGS = (
    *("timeout_read", "timeout_write", "timeout_idle", "use_proxy_protocol", "http_redirect_addr", "metrics_address"),
    "autocert",
)
# gRPC uses them as well, unless it is served without TLS.
OF_TLS = ("certificate_file", "certificate", "certificates")
NOT_STARTED = RequestRejected(503, "gate failed to start. The log has the cause.")


class ThirdPartyServer:
    """Entry points of a third-party server into `application`."""

    def __init__(self, runtime: Runtime, application: Application, ended: Callable[..., None]):
        self._runtime = runtime
        self._application = application
        self._ended = ended
        self._startup: asyncio.Future[None] | None = None
        self._consumer = WebsocketConsumer.as_asgi(app=application, on_handshake=self._count_handshake)

    async def serve_http(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if await self._has_started():
            await serve_http(self._application, scope, receive, send, self._ended)
        else:
            await send_rejection(NOT_STARTED, send)

    async def serve_websocket(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if await self._has_started():
            await self._consumer(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def serve_lifespan(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    self._begin()
                except ConfigError as error:
                    await send({"type": "lifespan.startup.failed", "message": f"startup failed: {error}"})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._runtime.stop()
                await asyncio.to_thread(drain_output)  # uvicorn exits by the signal that it received
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _has_started(self) -> bool:
        """Ensure that gate runs. A server without lifespan support (Daphne) starts it with the first request."""
        if self._startup is None:
            try:
                self._begin()
            except ConfigError as error:
                log.error("startup failed", problem=str(error))
        return self._startup is not None and self._startup.done() and self._startup.exception() is None

    def _begin(self) -> None:
        """Start everything except listeners. Raise ConfigError if that fails."""
        self._startup = asyncio.get_running_loop().create_future()
        try:
            begin(self._runtime)
        except ConfigError as error:
            self._startup.set_exception(error)
            self._startup.exception()  # logged once, here
            raise
        self._startup.set_result(None)

    def _count_handshake(self, host: bytes, method: bytes, status: int) -> None:
        self._ended(host, method, status, 0.0, 0, 0)


def unsupported_outside_rungate(options: Options) -> Problem | None:
    """Return the settings that no server supports that runs only the ASGI application."""
    if options.data_plane == "envoy":
        return Problem("data_plane", "requires `gate run`, which starts Envoy")
    if options.process_count > 1:
        return Problem("workers", "requires `gate run`, which starts several processes. Set workers: 1")
    if options.services in GRPC_ONLY_ROLES:
        return Problem("services", f"{options.services} serves gRPC only. Use `gate run`")
    return None


def open_under_daphne(runtime: Runtime) -> None:
    """Bind all ports except those of Daphne's command. Raise ConfigError, also if gate needs another command."""
    if problem := unsupported_outside_rungate(runtime.options):
        raise ConfigError([problem])
    raise_limit()
    runtime.open_ports()


def begin(runtime: Runtime) -> None:
    """Start under a third-party server and log the missing features. Raise ConfigError if it cannot serve the configuration."""
    if problem := unsupported_outside_rungate(runtime.options):
        raise ConfigError([problem])
    raise_limit()
    runtime.open_grpc()
    log.warning(
        "running under a third-party ASGI server",
        missing=list(UNSUPPORTED_FEATURES),
        settings_without_effect=ignored_settings(runtime.options),
    )
    runtime.start_without_listener()
    runtime.announce_ready()


def ignored_settings(options: Options) -> list[str]:
    """Return the settings that are set and that only gate's listener supports."""
    unused = (*LISTENER_SETTINGS, *OF_TLS) if options.grpc_insecure else LISTENER_SETTINGS
    return [key for key in unused if key in options.model_fields_set and getattr(options, key)]
