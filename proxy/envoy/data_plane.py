"""Envoy data plane: the Envoy process, its authorization server, and the internal listener for requests that gate handles."""

import asyncio
import fcntl
import json
import os
import resource
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import structlog

from config.options import Options
from foundation.errors import ConfigError, Problem
from foundation.readiness import ComponentStatus, degraded, failing
from foundation.tasks import spawn
from foundation.telemetry.exposition import MetricFamilies
from foundation.web.asgi_types import Application
from proxy.envoy.access_log_reader import FLUSH_ARGUMENTS, AccessLogReader
from proxy.envoy.config_publisher import EnvoyConfigPublisher
from proxy.envoy.connect_failover import ConnectFailover
from proxy.envoy.downstream_connections import DownstreamConnections
from proxy.envoy.envoy_rejection_log import log_envoy_rejection
from proxy.envoy.ext_authz_listener import ExtAuthzListener
from proxy.envoy.ext_authz_server import ExtAuthzServer
from proxy.envoy.internal_listener import InternalListener
from proxy.envoy.process.envoy_process import EnvoyProcess, find_executable
from proxy.envoy.process.envoy_statistics import EnvoyStatistics, merge_families
from proxy.envoy.process.overload_monitor import poll
from proxy.envoy.proxied.active_requests import LOG_DRAIN_SECONDS, ActiveRequests
from proxy.envoy.resources.bootstrap import EnvoyLimits, GateSockets, Json, bootstrap
from proxy.envoy.resources.certificate_secrets import EnvoyCertificates
from proxy.envoy.resources.control_listener import control_listener
from proxy.envoy.resources.edge_listener import edge_listener
from proxy.envoy.resources.ext_authz_filter import LOG_REQUEST, LOG_UPLOAD, ExtAuthzFilter
from proxy.envoy.resources.file_discovery import Discovery, write
from proxy.envoy.resources.http3_listener import http3_listener
from proxy.envoy.resources.http_connection_manager import LOG_REJECTED
from proxy.envoy.resources.upgrade_reaper import LOG_UPGRADE, UpgradeReaper
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.listeners import PlainHttpListener, bind
from proxy.listener.tls.acme_state import AcmeState
from proxy.service import ProxyService

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 10.0
CONTROL_TIMEOUT = 10.0  # seconds until the control connection is open at startup
READINESS_PART = "envoy"


class EnvoyDataPlane:
    """Envoy data plane. Created before the event loop runs.

    Raises ConfigError if Envoy is not installed or the address is in use.
    """

    _live: int | None = None  # process id of the Envoy that last reported itself live
    _overload_task: asyncio.Task[None] | None = None
    _secrets_task: asyncio.Task[None] | None = None
    _control_task: asyncio.Task[None] | None = None

    def __init__(
        self,
        options: Options,
        application: Application,
        service: Callable[[], ProxyService],
        acme_state: AcmeState | None = None,
    ):
        if not sys.platform.startswith("linux"):
            raise ConfigError([Problem("data_plane", "envoy requires Linux. Use `embedded`")])
        executable = find_executable(os.environ.get("PATH", ""))  # noqa: TID251 - the executable search path, not a setting
        bind(options.address, "address").close()
        scheme = "http" if options.insecure_server else "https"
        self._token, self._secret = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._files = options.data_dir / "envoy"
        self._files.mkdir(mode=0o700, exist_ok=True)
        self._lock = _lock_directory(self._files)
        # A socket path has at most 107 bytes.
        self.socket_directory = Path(tempfile.mkdtemp(prefix="gate-"))
        sockets = GateSockets.in_directory(self.socket_directory)
        admin, cuts = (self.socket_directory / name for name in ("admin", "cuts"))
        self.socket, self.passthrough_socket = _listen(sockets.gate), _listen(sockets.passthrough)
        self._failover_socket = _listen(sockets.failover)
        self._certificates = EnvoyCertificates(acme_state or AcmeState(), _listen(sockets.acme))
        self._workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._connections = connections = DownstreamConnections(cuts, lambda: self._process.kill())
        self.internal_listener = InternalListener(application, service, self._secret, scheme, connections.reset)
        self._active_requests = ActiveRequests(connections, time.monotonic)
        readers = {
            LOG_REQUEST: self._active_requests.on_access_log_line,
            LOG_UPLOAD: self._active_requests.on_upload_log_line,
            LOG_REJECTED: log_envoy_rejection,
            LOG_UPGRADE: UpgradeReaper(connections.shut_down).handle_line,
        }
        self._access_log = AccessLogReader({first.strip(): reader for first, reader in readers.items()})
        self._limits = _build_limits(options, self._workers)
        self._discovery = Discovery(self._files, admin)
        self._configuration = EnvoyConfigPublisher(
            options, self._discovery, self._certificates, self._active_requests, self._build_listeners, self._limits.to_upstream
        )
        cluster_of = self._configuration.find_cluster
        self._ext_authz_server = ExtAuthzServer(service, self._active_requests, cluster_of, self._token, self._secret, scheme)
        self._ext_authz_socket, self._admin = sockets.ext_authz, admin
        self.statistics = EnvoyStatistics(admin)
        self._ext_authz_listener: ExtAuthzListener | None = None
        self._access_log_task: asyncio.Task[None] | None = None
        started_with = bootstrap(self._files, sockets, admin, self._limits, [control_listener(cuts, options.address.port)])
        write(self._files / "bootstrap.json", json.dumps(started_with))
        self._process = self._build_process(executable)

    def _build_process(self, executable: Path) -> EnvoyProcess:
        arguments = ["-c", str(self._files / "bootstrap.json"), "--disable-hot-restart", "--log-level", "error", "--drain-time-s", "60"]
        arguments += ["--concurrency", str(self._workers), *FLUSH_ARGUMENTS]
        pass_fds = (self._access_log.fd,)
        return EnvoyProcess(executable, arguments, os.getpid(), time.monotonic, pass_fds, self._on_envoy_exit)

    def _on_envoy_exit(self) -> None:
        self._connections.on_envoy_exit()
        self._active_requests.on_envoy_exit()

    def __repr__(self) -> str:
        return f"<EnvoyDataPlane {self._process}>"

    async def start(self) -> None:
        """Start Envoy, and return when it listens. Raises ConfigError if it rejects its configuration."""
        self._ext_authz_listener = ExtAuthzListener(_listen(self._ext_authz_socket), self._ext_authz_server.respond)
        self._access_log_task = spawn(self._access_log.run(), name="envoy access log")
        PlainHttpListener(ConnectFailover(self._active_requests), self._failover_socket)
        self._certificates.serve_challenges(lambda: ListenerLimits.from_options(self._configuration.options))
        self._configuration.publish()
        self._control_task = spawn(self._connections.keep_open(), name="control connection to envoy")
        self._process.start()
        await self._configuration.wait_applied()
        with suppress(TimeoutError):  # without it gate forwards all requests itself, and readiness reports it
            async with asyncio.timeout(CONTROL_TIMEOUT):
                await self._connections.wait_open()
        self._set_live(True)
        self._overload_task = spawn(poll(self._admin, self._limits, self._set_live), name="envoy overload")
        self._secrets_task = spawn(self._certificates.sync(self._discovery.publish_secrets), name="envoy certificates")
        options = self._configuration.options
        log.info("envoy is listening", address=str(options.address), tls=not options.insecure_server)

    def _set_live(self, is_live: bool) -> None:
        self._live = self._process.pid if is_live else None

    def with_statistics(self, families: MetricFamilies, service: str, labels: Mapping[str, str]) -> MetricFamilies:
        """Return the metrics merged with Envoy's. Blocks; called in a thread."""
        return merge_families(families, self.statistics.families(service, labels))

    def readiness(self) -> ComponentStatus:
        """Return the readiness: gate is not ready until a running Envoy has reported itself live."""
        pid = self._process.pid
        if pid is None:
            return failing(READINESS_PART, "not running, restarting. The log has its output")
        if self._live != pid:
            return failing(READINESS_PART, "starting")
        if not self._connections.can_reset:
            return degraded(READINESS_PART, "no control connection: gate forwards all requests itself")
        pending = self._configuration.pending_reason
        return (
            degraded(READINESS_PART, f"its certificates and upstreams are from before the last reload: {pending}")
            if pending
            else ComponentStatus(READINESS_PART)
        )

    async def prepare(self, options: Options) -> str:
        """Publish a configuration to Envoy. Return why it is pending, or "". Raises ConfigError if Envoy rejects it."""
        return await self._configuration.prepare(options)

    def rollback(self) -> None:
        """Roll back to the configuration before `prepare`."""
        self._configuration.rollback()

    async def drain(self) -> None:
        """Stop accepting connections, and wait up to DRAIN_SECONDS for active requests."""
        await self._discovery.stop_accepting()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._active_requests.is_idle.wait()

    async def stop(self) -> None:
        for task in (self._overload_task, self._secrets_task, self._control_task):
            if task is not None:
                task.cancel()
        self._configuration.stop()
        await self._process.stop()
        await asyncio.sleep(LOG_DRAIN_SECONDS)
        self._active_requests.complete_all()
        if self._ext_authz_listener is not None:
            self._ext_authz_listener.close()
        if self._access_log_task is not None:
            self._access_log_task.cancel()
        self.close()

    def close(self) -> None:
        self._lock.close()
        self.socket.close()
        self.passthrough_socket.close()
        self._failover_socket.close()
        self._certificates.close()
        self._access_log.close()
        shutil.rmtree(self.socket_directory, ignore_errors=True)

    def _build_listeners(self, options: Options) -> list[Json]:
        listeners = [
            edge_listener(options, self._files, ExtAuthzFilter.from_options(options, self._token, self._secret, self._access_log.path))
        ]
        if (http3 := http3_listener(options, self._files, self._secret, self._access_log.path)) is not None:
            listeners.append(http3)
        return listeners


def _build_limits(options: Options, workers: int) -> EnvoyLimits:
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    heap, requested = options.envoy_max_heap, options.envoy_max_connections
    if descriptors == resource.RLIM_INFINITY:
        return EnvoyLimits(heap, requested)
    limits = EnvoyLimits.within(descriptors, heap, requested, workers)
    if limits.connections < requested:
        log.warning("envoy_max_connections lowered", connections=limits.connections, descriptors=descriptors)
    return limits


def _lock_directory(directory: Path) -> TextIO:
    """Lock the directory while the returned file is open, because two gates would overwrite each other's Envoy configuration."""
    file = (directory / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        where = directory.parent
        raise ConfigError(
            [Problem("data_dir", f"another gate with `data_plane: envoy` uses {where}. Set a separate `data_dir` for each.")]
        ) from error
    return file


def _listen(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen(1024)
    listening.setblocking(False)
    return listening
