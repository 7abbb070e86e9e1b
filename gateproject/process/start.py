"""Process start: preparation before the first request, and serving without HTTP."""

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
from gateproject.process.services import AUTHENTICATE_ROLES
from proxy.listener.event_loop import run, use_event_loop

log = structlog.get_logger(__name__)


def prepare(options: Options) -> None:
    """Prepare for the first request: complete configuration, logs, private data directory, migrated database.

    Raises ConfigError.
    """
    configure_logs(options.log_level, options.proxy_log_level, readable=options.gate_debug)
    _require_complete(settings.GATE_SOURCE)
    try:
        options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if options.services in AUTHENTICATE_ROLES or options.databroker_storage_type == "database":
            migrate(options)
            gc.collect()  # models of migrations have reference cycles; collect them before the services are frozen
    except OSError as error:
        problem = f"gate must be able to write in {options.data_dir}: {error.strerror or type(error).__name__}"
        raise ConfigError([Problem("data_dir", problem)]) from error
    if options.databroker_service_url is None:
        asyncio.run(_check_secret(options))


def _require_complete(source: ConfigWatcher) -> None:
    """Raise ConfigError if files were still being written when this process read them."""
    if (unsettled := source.find_unsettled()) is not None:
        asyncio.run(asyncio.sleep(unsettled[1]))  # time.sleep fails under libraries that shift the clock (faketime)
    if source.has_changed():
        raise ConfigError([Problem("", "changed while gate was starting. Start gate again", file=printable_path(source.path or Path()))])


async def _check_secret(options: Options) -> None:
    """Check shared_secret against the store. An unavailable store does not prevent the start; requests fail until it is back."""
    store = open_store(options)
    try:
        if isinstance(store, SealedStore):
            await store.verify_key()
    except UnusableStore as error:
        raise ConfigError([Problem(error.setting, str(error))]) from error
    except BrokerError as error:
        log.warning("store unavailable at startup", reason=str(error))
    finally:
        await store.close()


def runtime_from_settings() -> Runtime:
    """Return the runtime of the loaded configuration; exit if it has problems."""
    worker = settings.GATE_WORKER
    install_non_blocking_output(None if worker is None else worker.output_lock)
    with exit_on_config_error():
        if settings.GATE_CONFIG_ERROR is not None:
            raise settings.GATE_CONFIG_ERROR
        if worker is not None:
            from gateproject.process.workers.worker import create_runtime  # only with several workers

            return create_runtime(worker, settings.GATE_OPTIONS, settings.GATE_SOURCE)
        prepare(settings.GATE_OPTIONS)
        return Runtime(settings.GATE_OPTIONS, settings.GATE_SOURCE)


@contextmanager
def exit_on_config_error() -> Iterator[None]:
    """Print the problems of the configuration and exit."""
    try:
        yield
    except ConfigError as error:
        where = settings.GATE_CONFIG_PATH or f"environment ({NO_FILE})"
        sys.exit(f"{where}: {len(error.problems)} problem(s), startup failed\n{error}")


def serve_grpc_only(runtime: Runtime) -> None:
    """Serve until SIGTERM or SIGINT, for services without HTTP. Raise ConfigError if a port is unavailable."""

    async def serve() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await runtime.run_until(stop)

    use_event_loop()
    runtime.open_grpc()
    runtime.open_metrics()
    run(serve)
