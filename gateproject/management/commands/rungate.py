"""Run gate with its own listeners, as the configuration says."""

import resource
import signal
import sys
from typing import Any

from django.conf import settings

from gateproject.command import ConfiguredCommand
from gateproject.errors import ConfigError


class Command(ConfiguredCommand):
    help = "Run gate: python manage.py rungate -config config.yaml"

    def handle(self, *args: Any, **arguments: Any) -> None:
        # Until there is an event loop to take it; what the file says by then is seen when it is watched.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        allow_many_connections()
        from gateproject.runtime import SERVES_GRPC_ONLY
        from gateproject.start import from_settings, serve_grpc_only

        if settings.GATE_OPTIONS is not None and settings.GATE_OPTIONS.services in SERVES_GRPC_ONLY:
            try:
                serve_grpc_only(from_settings())
            except ConfigError as error:
                sys.exit(f"nothing was started\n{error}")
            return
        from gateproject.asgi import application, runtime  # exits where the configuration has problems
        from proxy.listener import listen

        try:
            listen.use_event_loop()
            runtime.open_grpc()
            runtime.open_metrics()
            if runtime.options.http_redirect_addr is not None:
                listen.lead_to_https(runtime.options.http_redirect_addr, lambda: runtime.world.options.headers)
            listen.serve(
                application,
                runtime.options.address,
                lambda: runtime.world.listener,
                on_ready=runtime.say_ready,
                on_stop=runtime.stop,
                is_behind_balancer=runtime.options.use_proxy_protocol,
            )
        except ConfigError as error:
            sys.exit(f"nothing was started\n{error}")


def allow_many_connections() -> None:
    """Each request and each websocket takes two file descriptors, and the usual soft limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
