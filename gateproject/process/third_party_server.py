"""Another ASGI server than ours (uvicorn, hypercorn, Daphne's own classes): what begins with it, and what it lacks is said once.

Such a server reads HTTP itself and gives us messages.  What they do not say is not known here, so it is not let in.
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
from gateproject.process.services import SERVES_GRPC_ONLY
from proxy.consumers import WebsocketConsumer
from proxy.listener.http1.request_head import RequestRejected
from proxy.third_party_asgi.http_adapter import send_rejection, serve_http

log = structlog.get_logger(__name__)

# What our listener does, and nobody does here (docs/operations/servers.md).
MISSING = (
    *(
        "backpressure and timeouts depend on the server",
        "TCP tunnels are not supported",
        "upgrades other than websockets are not supported",
    ),
    *("client certificates are not supported: such routes respond with 495", "an aborted response ends as the server implements it"),
)
# Settings by which our listener is run; each is named where it is set.
OF_THE_LISTENER = (
    *("timeout_read", "timeout_write", "timeout_idle", "use_proxy_protocol", "http_redirect_addr", "metrics_address"),
    "autocert",
)
# gRPC has them, too, unless it is served without TLS.
OF_TLS = ("certificate_file", "certificate", "certificates")
NOT_STARTED = RequestRejected(503, "gate failed to start. The log has the cause.")


class OtherServer:
    """Another server's way into `application`, which judges and carries."""

    def __init__(self, runtime: Runtime, application: Application, ended: Callable[..., None]):
        self._runtime = runtime
        self._application = application
        self._ended = ended
        self._begun: asyncio.Future[None] | None = None
        self._consumer = WebsocketConsumer.as_asgi(app=application, on_handshake=self._counted)

    async def http(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if await self._has_begun():
            await serve_http(self._application, scope, receive, send, self._ended)
        else:
            await send_rejection(NOT_STARTED, send)

    async def websocket(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if await self._has_begun():
            await self._consumer(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def lifespan(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
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
                await asyncio.to_thread(drain_output)  # uvicorn ends by the signal that it was sent
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _has_begun(self) -> bool:
        """Whether gate runs.  A server without lifespan (Daphne) begins it with its first request."""
        if self._begun is None:
            try:
                self._begin()
            except ConfigError as error:
                log.error("startup failed", problem=str(error))
        return self._begun is not None and self._begun.done() and self._begun.exception() is None

    def _begin(self) -> None:
        """Begin all that is no listener's; ConfigError where that can't be."""
        self._begun = asyncio.get_running_loop().create_future()
        try:
            begin(self._runtime)
        except ConfigError as error:
            self._begun.set_exception(error)
            self._begun.exception()  # it is told here, once
            raise
        self._begun.set_result(None)

    def _counted(self, host: bytes, method: bytes, status: int) -> None:
        self._ended(host, method, status, 0.0, 0, 0)


def needs_rungate(options: Options) -> Problem | None:
    """Settings that no server can honour that is only given our ASGI application."""
    if options.data_plane == "envoy":
        return Problem("data_plane", "requires `gate run`, which starts Envoy")
    if options.process_count > 1:
        return Problem("workers", "requires `gate run`, which starts several processes. Set workers: 1")
    if options.services in SERVES_GRPC_ONLY:
        return Problem("services", f"{options.services} serves gRPC only. Use `gate run`")
    return None


def open_under_daphne(runtime: Runtime) -> None:
    """Take all ports but those that Daphne's command was given; ConfigError, too, where gate needs another command."""
    if problem := needs_rungate(runtime.options):
        raise ConfigError([problem])
    raise_limit()
    runtime.open_ports()


def begin(runtime: Runtime) -> None:
    """Begin under a server that is not ours; says once what is weaker there.  ConfigError where it can't carry what is configured."""
    if problem := needs_rungate(runtime.options):
        raise ConfigError([problem])
    raise_limit()
    runtime.open_grpc()
    log.warning(
        "running under a third-party ASGI server",
        missing=list(MISSING),
        settings_without_effect=without_effect(runtime.options),
    )
    runtime.begin_without_listener()
    runtime.say_ready()


def without_effect(options: Options) -> list[str]:
    """Settings that were set, and that only our listener heeds."""
    unused = (*OF_THE_LISTENER, *OF_TLS) if options.grpc_insecure else OF_THE_LISTENER
    return [key for key in unused if key in options.model_fields_set and getattr(options, key)]
