"""`manage.py rungate`: runs gate with its own listeners, as the configuration says."""

import os
import signal
import sys
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django.conf import settings

from foundation.errors import ConfigError
from foundation.machine.fd_limit import raise_limit
from foundation.web.asgi import Application
from gateproject.management.configured_command import ConfiguredCommand

if TYPE_CHECKING:
    from config.options import Options
    from gateproject.process.runtime import Runtime
    from proxy.listener.context import Ended

# Of a runtime: asked several times by each request, so it is no function.
_LISTENER_STATE = attrgetter("services.listener")


class Command(ConfiguredCommand):
    help = "Start gate in the foreground, until SIGTERM or Ctrl-C."

    def handle(self, *args: Any, **arguments: Any) -> None:
        # Until there is an event loop to take it; what the file says by then is seen when it is watched.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        raise_limit()
        from gateproject.process.services import SERVES_GRPC_ONLY
        from gateproject.process.start import from_settings, serve_grpc_only

        if settings.GATE_OPTIONS is not None and settings.GATE_OPTIONS.process_count > 1:
            try:
                fork_workers(settings.GATE_OPTIONS)
            except ConfigError as error:
                sys.exit(f"startup failed\n{error}")

        if settings.GATE_OPTIONS is not None and settings.GATE_OPTIONS.services in SERVES_GRPC_ONLY:
            try:
                serve_grpc_only(from_settings())
            except ConfigError as error:
                sys.exit(f"startup failed\n{error}")
            return
        from gateproject.asgi import answered, edge, runtime  # exits where the configuration has problems
        from proxy.listener import listen

        def ready() -> None:
            runtime.autocert.begin(runtime.options)
            runtime.say_ready()

        try:
            listen.use_event_loop()
            runtime.open_grpc()
            runtime.open_metrics()
            runtime.open_redirects()
            listen.when_running(runtime.begin)
            if runtime.options.data_plane == "envoy":
                serve_behind_envoy(runtime, edge, answered)
                return
            listen.serve(
                edge,  # what a listener of ours has read is HTTP: websockets, too, until their upstream agrees
                runtime.options.address if settings.GATE_WORKER is None else settings.GATE_WORKER.listener,
                partial(_LISTENER_STATE, runtime),
                on_ready=ready,
                on_stop=runtime.stop,
                before_stop=runtime.about_to_stop,
                is_behind_balancer=runtime.options.use_proxy_protocol,
                obtained=runtime.autocert.obtained,
                ended=answered,
            )
        except ConfigError as error:
            sys.exit(f"startup failed\n{error}")


def fork_workers(options: "Options") -> None:
    """Fork `workers` processes, and return in each of them; exits when all have ended.  ConfigError where the address can't be had."""
    from gateproject.process.start import exits_with_problems, prepare
    from gateproject.process.workers.supervisor import Supervisor, listener_of_all

    with exits_with_problems():
        prepare(options)
    settings.GATE_WORKER = Supervisor(options.process_count, listener_of_all(options), options.shutdown_delay.total_seconds()).run()


def serve_behind_envoy(runtime: "Runtime", application: "Application", answered: "Ended") -> None:
    """Serve until SIGTERM or SIGINT.  ConfigError where Envoy is missing, can't have the address, or refuses what it is told."""
    from foundation.tasks import spawn
    from proxy.listener import listen

    envoy = runtime.envoy_plane(application)
    refused: list[ConfigError] = []

    async def begin() -> None:
        try:
            await envoy.start()
            runtime.autocert.begin(runtime.options)
            runtime.say_ready()
        except ConfigError as error:
            refused.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

    async def before_stop() -> None:
        await runtime.about_to_stop()
        await envoy.drain()

    def begin_soon() -> None:
        spawn(begin(), name="envoy begins")

    listen.serve_behind(
        envoy.internal_listener,
        envoy.socket,
        envoy.unread_socket,
        partial(_LISTENER_STATE, runtime),
        on_ready=begin_soon,
        on_stop=runtime.stop,
        before_stop=before_stop,
        obtained=runtime.autocert.obtained,
        ended=answered,
    )
    if refused:
        raise refused[0]
