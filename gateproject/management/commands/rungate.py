"""`manage.py rungate`: runs gate with its own listeners."""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from django.conf import settings

from foundation.errors import ConfigError
from foundation.system.fd_limit import raise_limit
from foundation.tasks import spawn
from foundation.web.asgi_types import Application
from gateproject.management.configured_command import ConfiguredCommand

if TYPE_CHECKING:
    from config.options import Options
    from gateproject.process.runtime import Runtime
    from proxy.envoy.data_plane import EnvoyDataPlane


class Command(ConfiguredCommand):
    help = "Start gate in the foreground, until SIGTERM or Ctrl-C."

    def handle(self, *args: Any, **arguments: Any) -> None:
        # SIGHUP is ignored until the event loop handles it; the file is checked again when it is watched.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        raise_limit()
        from gateproject.process.services import GRPC_ONLY_ROLES
        from gateproject.process.start import runtime_from_settings, serve_grpc_only

        if settings.GATE_OPTIONS is not None and settings.GATE_OPTIONS.process_count > 1:
            try:
                fork_workers(settings.GATE_OPTIONS)
            except ConfigError as error:
                sys.exit(f"startup failed\n{error}")

        if settings.GATE_OPTIONS is not None and settings.GATE_OPTIONS.services in GRPC_ONLY_ROLES:
            try:
                serve_grpc_only(runtime_from_settings())
            except ConfigError as error:
                sys.exit(f"startup failed\n{error}")
            return
        from gateproject.asgi import gate_application, runtime  # exits if the configuration has problems
        from proxy.listener import listeners
        from proxy.listener.event_loop import use_event_loop

        try:
            use_event_loop()
            runtime.open_ports()
            if runtime.options.data_plane == "envoy":
                serve_behind_envoy(runtime, gate_application)
                return
            address = runtime.options.address if settings.GATE_WORKER is None else settings.GATE_WORKER.listener
            # gate's listener always passes HTTP, also for websockets, until the upstream has accepted them.
            listeners.serve(gate_application, address, runtime.listener_config(), runtime)
        except ConfigError as error:
            sys.exit(f"startup failed\n{error}")


def fork_workers(options: "Options") -> None:
    """Fork `workers` processes, and return in each of them; exit when all have ended. Raise ConfigError if the address is unavailable."""
    from gateproject.process.start import exit_on_config_error, prepare
    from gateproject.process.workers.supervisor import Supervisor, open_shared_listener

    with exit_on_config_error():
        prepare(options)
    settings.GATE_WORKER = Supervisor(options.process_count, open_shared_listener(options), options.shutdown_delay.total_seconds()).run()


def serve_behind_envoy(runtime: "Runtime", application: "Application") -> None:
    """Serve until SIGTERM or SIGINT. Raise ConfigError if Envoy is missing, cannot bind the address, or rejects its configuration."""
    from proxy.listener import listeners

    envoy = runtime.create_envoy_plane(application)
    lifecycle = EnvoyLifecycle(runtime, envoy)
    listeners.serve_behind_envoy(envoy.internal_listener, envoy.socket, envoy.passthrough_socket, runtime.listener_config(), lifecycle)
    if lifecycle.refused is not None:
        raise lifecycle.refused


class EnvoyLifecycle:
    """Lifecycle of a process with Envoy as its listener. `refused` is the error if it could not start."""

    def __init__(self, runtime: "Runtime", envoy: "EnvoyDataPlane"):
        self._runtime = runtime
        self._envoy = envoy
        self.refused: ConfigError | None = None
        self.stop = runtime.stop
        self.on_request_complete = runtime.on_request_complete

    def on_ready(self) -> None:
        spawn(self._begin(), name="envoy begins")

    async def _begin(self) -> None:
        try:
            await self._envoy.start()
            self._runtime.on_ready()
        except ConfigError as error:
            self.refused = error
            os.kill(os.getpid(), signal.SIGTERM)

    async def drain(self) -> None:
        await self._runtime.drain()
        await self._envoy.drain()
