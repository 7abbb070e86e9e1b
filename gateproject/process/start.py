"""Process start: what must be true before the first request, and serving where browsers never come."""

import asyncio
import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from django.conf import settings

from config.config_watcher import ConfigWatcher
from config.options import Options
from config.parsing.document import printable_path
from databroker.store.factory import open_store
from databroker.store.sealed import SealedStore, UnusableStore
from foundation.errors import BrokerError, ConfigError, Problem
from foundation.telemetry.logs import configure_logs
from foundation.telemetry.output import install_non_blocking_output
from gateproject.process.config_report import NO_FILE
from gateproject.process.database_migrations import migrate
from gateproject.process.runtime import Runtime
from gateproject.process.services import SIGNS_IN
from proxy.listener.event_loop import run, use_event_loop

log = structlog.get_logger(__name__)


def prepare(options: Options) -> None:
    """Prepare for the first request: the configuration complete, logs as configured, the data directory ours alone, the database migrated.

    ConfigError.
    """
    configure_logs(options.log_level, options.proxy_log_level, readable=options.gate_debug)
    _require_complete(settings.GATE_SOURCE)
    try:
        options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if options.services in SIGNS_IN or options.databroker_storage_type == "database":
            migrate(options)
            gc.collect()  # Django's models of each migration refer to themselves; services are frozen with whatever is there by then
    except OSError as error:
        problem = f"gate must be able to write in {options.data_dir}: {error.strerror or type(error).__name__}"
        raise ConfigError([Problem("data_dir", problem)]) from error
    if options.databroker_service_url is None:
        asyncio.run(_check_secret(options))


def _require_complete(source: ConfigWatcher) -> None:
    """ConfigError where the files that were read at the start of this process were still being written."""
    if (unsettled := source.find_unsettled()) is not None:
        asyncio.run(asyncio.sleep(unsettled[1]))  # time.sleep fails where a library shifts the clock (faketime)
    if source.has_changed():
        raise ConfigError([Problem("", "changed while gate was starting. Start gate again", file=printable_path(source.path or Path()))])


async def _check_secret(options: Options) -> None:
    """A store that is away is no reason not to start: until it is back, whoever needs it is told so."""
    store = open_store(options)
    try:
        if isinstance(store, SealedStore):
            await store.check()
    except UnusableStore as error:
        raise ConfigError([Problem(error.setting, str(error))]) from error
    except BrokerError as error:
        log.warning("store unavailable at startup", reason=str(error))
    finally:
        await store.close()


def from_settings() -> Runtime:
    """Runtime, as the configuration says that Django's settings have loaded; exits where it has problems."""
    worker = settings.GATE_WORKER
    install_non_blocking_output(None if worker is None else worker.turns)
    with exits_with_problems():
        if settings.GATE_CONFIG_ERROR is not None:
            raise settings.GATE_CONFIG_ERROR
        if worker is not None:
            from gateproject.process.workers.worker import runtime_of  # where there are several, and nowhere else

            return runtime_of(worker, settings.GATE_OPTIONS, settings.GATE_SOURCE)
        prepare(settings.GATE_OPTIONS)
        return Runtime(settings.GATE_OPTIONS, settings.GATE_SOURCE)


@contextmanager
def exits_with_problems() -> Iterator[None]:
    """Exit where the configuration has problems, and print them."""
    try:
        yield
    except ConfigError as error:
        where = settings.GATE_CONFIG_PATH or f"environment ({NO_FILE})"
        sys.exit(f"{where}: {len(error.problems)} problem(s), startup failed\n{error}")


def serve_grpc_only(runtime: Runtime) -> None:
    """Serve until SIGTERM or SIGINT, for services that people's browsers never reach.  ConfigError where a port can't be had."""

    async def serve() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await runtime.run_until(stop)

    use_event_loop()
    runtime.open_grpc()
    runtime.open_metrics()
    run(serve)
