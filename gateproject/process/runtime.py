"""Runtime: runs the services of a configuration and their background work, replaces them at a reload, and stops them."""

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings

from authenticate.background_work import STOP_GRACE_SECONDS
from authorize.decision_log import persistence
from authorize.decision_log.decision_log import DecisionLog, DecisionRecorder
from authorize.ext_authz_types import ExtAuthzDependencies
from config.config_watcher import ConfigWatcher
from config.inspect.config_diff import ConfigSnapshot
from config.options import Options
from databroker.claims import ProviderClaims
from databroker.service import DataBrokerService
from databroker.store.factory import open_store
from foundation.errors import ConfigError, Problem
from foundation.readiness import ComponentStatus, ReadinessReport, degraded, failing
from foundation.system.systemd_notifier import SystemdNotifier
from foundation.tasks import spawn
from foundation.telemetry import metrics
from foundation.telemetry.exposition import MetricFamilies, MetricsEndpoint
from foundation.telemetry.logs import configure_logs
from foundation.telemetry.monitoring_app import MonitoringApp
from foundation.telemetry.tracing import tracer
from foundation.version import version
from foundation.web.asgi_types import Application
from gateproject.process.gc_tuning import background_build, freeze_startup_heap
from gateproject.process.metrics_listener import MetricsListener
from gateproject.process.peers import NoPeers
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus, Reload, ReloadStep
from gateproject.process.restart_only import keep_restart_only_values
from gateproject.process.rpc import Rpc, create_rpc
from gateproject.process.services import AUTHENTICATE_ROLES, ServiceBuilder, Services, require_service
from gateproject.settings import cookie_settings
from proxy.autocert.autocert_service import Autocert
from proxy.incoming_request import IncomingRequest
from proxy.listener.event_loop import call_when_running
from proxy.listener.listener_context import ListenerConfig
from proxy.listener.listeners import serve_https_redirects
from proxy.listener.tls.certificate_readiness import CertificateReadiness, configured_expiries
from proxy.planes.shared_resources import SharedResources

if TYPE_CHECKING:
    from proxy.envoy.data_plane import EnvoyDataPlane

log = structlog.get_logger(__name__)

# An attrgetter, because every request calls it several times and a Python function is slower.
_LISTENER_SETTINGS = attrgetter("services.listener")
CONFIG_POLL_INTERVAL = 1.0  # seconds between checks of the configuration's files


def _note_configuration(options: Options) -> None:
    """Log and publish facts of a configuration, once for all processes."""
    if options.metrics_address is not None and options.services in ("all", "proxy") and not options.has_route_metrics:
        log.info("per-route metrics disabled", routes=len(options.policy), setting="metrics_per_route")
    metrics.set_certificate_expiries("configuration", configured_expiries(options))


@dataclass(slots=True)
class Runtime:
    """Runtime of the services that `services` names, in this process; `status` is that of the active configuration."""

    options: Options
    source: ConfigWatcher
    clock: Callable[[], float] = time.time
    peers: NoPeers = field(default_factory=NoPeers)
    services: Services = field(init=False)
    status: ConfigurationStatus = field(init=False)
    provenance: ConfigProvenance = field(init=False)
    autocert: Autocert = field(default_factory=Autocert)
    _rpc: Rpc = field(init=False)
    databroker: DataBrokerService = field(init=False)
    _resources: SharedResources = field(init=False)
    builder: ServiceBuilder = field(init=False)
    envoy: "EnvoyDataPlane | None" = None
    metrics_page: MetricsEndpoint = field(init=False)
    _metrics: MetricsListener = field(init=False)
    _manager: SystemdNotifier = field(init=False)
    _background: list[asyncio.Task[Any]] = field(default_factory=list)
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _certificates: tuple[Options, CertificateReadiness] | None = None
    _is_stopping: bool = False

    def __post_init__(self) -> None:
        self._rpc = create_rpc(self.options, self.clock, self.peers.worker)
        store = open_store(self.options, self.clock) if self._rpc.broker is None else None
        self.databroker = DataBrokerService(
            store,
            self.clock,
            remote=self._rpc.broker,
            staleness=self.options.session_staleness.total_seconds(),
            has_replica=self.options.services != "databroker",
            has_tables=self.peers.is_primary and self.options.services in AUTHENTICATE_ROLES,
            writes_last_seen=self.options.has_admin_reader,
            provider_claims=ProviderClaims.from_options(self.options),
        )
        decisions = DecisionLog(persistence.write_entries, clock=self.clock)
        self._resources = SharedResources(decisions, on_session_activity=self.databroker.activity.record, broker=self.databroker.client)
        self.builder = ServiceBuilder(
            self.databroker, self._resources, self.autocert.acme_state, self._rpc, self._wants_certificate, self.clock
        )
        configuration = self.peers.configuration
        with background_build():
            self.services = self.builder.build(self.options, key=configuration and configuration.key(self.options.signing_key_algorithm))
        self.status = self._status_now()
        self.provenance = configuration.deserialize_provenance() if configuration else ConfigProvenance(self.source.source_map)
        tracer.set_tracer(self.services.tracing)
        metrics.set_build_info(self.options.service_label, version())
        self.metrics_page = MetricsEndpoint(self.options.service_label, self._families, self.peers.collect_metrics)
        self._metrics = MetricsListener(MonitoringApp(self.metrics_page, self.readiness))
        self._metrics.is_on = self.peers.is_primary
        self._manager = SystemdNotifier(lambda: self.readiness().summary())
        if self.peers.is_primary:
            _note_configuration(self.options)
        self._configure_decision_log()

    def _status_now(self) -> ConfigurationStatus:
        configuration = self.peers.configuration
        return (configuration.status if configuration else ConfigurationStatus.from_watcher(self.source)).publish(
            self.options.service_label
        )

    def _wants_certificate(self, name: str | None) -> bool:
        return require_service(self.services.authorize).requests_client_certificate(name)

    def _configure_decision_log(self) -> None:
        if self.options.has_admin_reader:
            self._resources.decision_log.configure(self.options, self.status.checksum)

    def create_envoy_plane(self, application: Application) -> "EnvoyDataPlane":
        """Create the Envoy data plane. Raise ConfigError."""
        from proxy.envoy.data_plane import EnvoyDataPlane

        self.envoy = EnvoyDataPlane(self.options, application, lambda: require_service(self.services.proxy), self.autocert.acme_state)
        return self.envoy

    def open_grpc(self) -> None:
        """Bind the port of `grpc_address`. Raise ConfigError. Called before the event loop runs, so that a failure starts nothing."""
        recorder = DecisionRecorder(self._resources.decision_log, self._resources.on_session_activity, self.clock)
        services = ExtAuthzDependencies(
            lambda: require_service(self.services.authorize),
            lambda: require_service(self.services.ext_authz),
            self.databroker.replica,
            recorder,
        )
        self._rpc.open(self.databroker.client, services)

    def open_metrics(self) -> None:
        """Bind the port of `metrics_address`. Raise ConfigError."""
        self._metrics.serve(self.options, self._metrics.bind(self.options))

    def _families(self) -> MetricFamilies:
        """Return the metrics of routes and of Envoy; called in a thread."""
        service, statistics = self.options.service_label, self._resources.statistics
        families = statistics.families(service)
        return families if self.envoy is None else self.envoy.with_statistics(families, service, statistics.labels())

    def readiness(self) -> ReadinessReport:
        """Return the readiness of all components, from their state and without requests, so that it may be polled."""
        services, parts = self.services, [self.status.readiness(), self._certificate_readiness(), self.databroker.readiness()]
        if self._rpc.authorize is not None and not self._rpc.authorize.is_connected:
            report = failing if self.options.services == "proxy" else degraded
            parts.append(report("authorize", f"{self.options.authorize_service_url} is not connected"))
        parts += [part.readiness() for part in (services.authenticate, services.directory, self.envoy) if part is not None]
        if self._is_stopping:
            parts.append(failing("process", "shutting down"))
        return ReadinessReport((*parts, *self.peers.readiness()))

    def _certificate_readiness(self) -> ComponentStatus:
        if self._certificates is None or self._certificates[0] is not self.options:
            self._certificates = self.options, CertificateReadiness(self.options, self.autocert.acme_state)
        return self._certificates[1](datetime.fromtimestamp(self.clock(), UTC))

    def open_redirects(self) -> None:
        """Bind the port of `http_redirect_addr`. Raise ConfigError."""
        if self.options.http_redirect_addr is not None and self.peers.is_primary:
            serve_https_redirects(self.options.http_redirect_addr, lambda: self.services.options.headers, self.autocert.acme_state)

    def open_ports(self) -> None:
        """Bind all ports except that of `address`. Raise ConfigError. Background work starts when the event loop runs."""
        self.open_grpc()
        self.open_metrics()
        self.open_redirects()
        call_when_running(self.begin)

    def listener_config(self) -> ListenerConfig:
        return ListenerConfig(partial(_LISTENER_SETTINGS, self), self.autocert.acme_state, self.options.use_proxy_protocol)

    def on_ready(self) -> None:
        self.autocert.start(self.options)
        self.peers.on_ready(self)

    def on_request_complete(self, *facts: Any) -> None:
        if (proxy := self.services.proxy) is not None:
            proxy.request_counter(*facts)

    def run_in_background(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self._background.append(spawn(work, name=name))

    def begin(self) -> None:
        """Start the background work; called once, when the event loop runs."""
        freeze_startup_heap()
        with suppress(RuntimeError, ValueError):  # a third-party server may run gate on another thread, which cannot handle signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_soon)
        self.run_in_background(self._start(), "start")

    def start_without_listener(self) -> None:
        """Start under a third-party server: only gRPC listens, also after reloads."""
        self._metrics.is_on = False
        self.begin()

    async def _start(self) -> None:
        """Start the components. A concurrent reload waits, because it stops and starts some of them."""
        async with self._reloading:
            await self.peers.start(self, self._start_parts)

    async def _start_parts(self) -> None:
        self.databroker.replica.on_change(self._resources.streams.on_change)
        await self.databroker.start()
        await self._rpc.start()
        if self.services.authenticate is not None:
            await self.services.authenticate.start(is_primary=self.peers.is_primary)
        self._resources.reconfigure(self.options, None if self.services.proxy is None else self.services.proxy.data_plane.forwarding_table)
        if self.services.directory is not None and self.peers.is_primary:
            await self.services.directory.start()
        self.run_in_background(self._resources.streams.run(self._reauthorize), "open streams")
        if self.peers.is_primary:
            self.run_in_background(self._follow_configuration(), "configuration")
        self.run_in_background(self._resources.decision_log.run(), "decision log")

    async def _reauthorize(self, incoming: IncomingRequest) -> float:
        return await require_service(self.services.proxy).data_plane.reauthorize(incoming)

    async def run_until(self, stop: asyncio.Event) -> None:
        freeze_startup_heap()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_soon)
        await self._start()
        self.peers.on_ready(self)
        await stop.wait()
        await self.drain()
        await self.stop()

    def announce_ready(self) -> None:
        options = self.options
        log.info(
            "gate is ready", services=options.services, routes=len(options.policy), authenticate=options.authenticate_service_url.origin
        )
        self._manager.notify_ready()
        if self._manager.is_enabled:
            self.run_in_background(self._manager.send_watchdog_pings(), "systemd watchdog")

    async def drain(self) -> None:
        """Report not ready, and wait `shutdown_delay` while requests are still accepted, so that load balancers notice."""
        self._is_stopping = True
        self._manager.notify_stopping()
        delay = self.options.shutdown_delay.total_seconds()
        if delay:
            log.info("draining", delay_seconds=delay)
            await asyncio.sleep(delay)

    async def _follow_configuration(self) -> None:
        while True:
            await asyncio.sleep(CONFIG_POLL_INTERVAL)
            if not self._reloading.locked() and await asyncio.to_thread(self.source.has_changed):
                await self.reload()

    def _reload_soon(self) -> None:
        self.run_in_background(self.reload(), "reload")

    async def reload(self) -> None:
        """Reload atomically: first everything that can fail, then one assignment swaps the services, then each subsystem applies it."""
        if not self.peers.is_primary:  # only the primary handles SIGHUP
            return
        async with self._reloading:  # SIGHUP may coincide with a changed file: without the lock the older file could win
            self._manager.notify_reloading()
            try:
                async with self.peers.change():
                    await self._reload()
            except ConfigError as error:
                self.status = self.status.rejected_with(error.problems, self.options.service_label)
            except Exception as error:  # any error is reported, and the file stays watched
                log.exception("configuration reload failed")
                problem = Problem("", f"reload failed: {type(error).__name__}: {error}")
                self.status = self.status.rejected_with((problem,), self.options.service_label)
            finally:
                self._manager.notify_reloaded()
        await self.peers.report(self.status)

    async def _reload(self) -> None:
        services, provenance = await self._settled_services()
        options = services.options
        cookies = cookie_settings(options)
        await self.peers.prepare(services, provenance)
        late = await self.envoy.prepare(options) if self.envoy is not None else ""
        try:
            metrics_socket = await self._metrics.rebind(options)
        except BaseException:
            if self.envoy is not None:
                self.envoy.rollback()
            raise
        await self.swap(services, provenance, cookies, metrics_socket, late)

    async def _settled_services(self) -> tuple[Services, ConfigProvenance]:
        """Return the next services, built from files that are completely written. Raise ConfigError."""
        while True:
            await self.source.settle()
            made = await asyncio.to_thread(self._build_next)
            # The new configuration may name files that the previous one did not.
            if await asyncio.to_thread(self.source.find_unsettled) is None:
                return made

    async def swap(
        self, services: Services, provenance: ConfigProvenance, cookies: dict[str, object], metrics_socket: socket.socket | None, late: str
    ) -> None:
        options = services.options
        old, self.services, self.options, self.provenance = self.services, services, options, provenance
        self.status = self._status_now()
        for name, value in cookies.items():
            setattr(settings, name, value)
        if self.peers.is_primary:
            _note_configuration(options)
        reload = Reload()
        reload.record_failure("envoy", late)
        # The configuration is reported as active only after every worker uses it.
        await asyncio.gather(self.peers.commit(), self._apply(old, services, metrics_socket, reload))
        self.status = self.status.with_degradation(reload.problems, options.service_label)
        if self.peers.is_primary:
            log.info("configuration reloaded", file=self.status.file, checksum=self.status.checksum, routes=len(options.policy))

    async def _apply(self, old: Services, services: Services, metrics_socket: socket.socket | None, reload: Reload) -> None:
        """Apply the new configuration to each subsystem. Access comes first: revocations take effect even if later steps fail."""
        options, resources = services.options, self._resources
        state = None if services.proxy is None else services.proxy.data_plane.forwarding_table
        staleness, counted = options.session_staleness.total_seconds(), ProviderClaims.from_options(options)
        steps: list[tuple[str, ReloadStep]] = [
            ("open streams", resources.streams.on_policy_change),
            ("metrics", lambda: self._metrics.serve(options, metrics_socket)),
            ("tracing", lambda: tracer.set_tracer(services.tracing)),
            ("data broker", lambda: self.databroker.reconfigure(options.shared_secret, staleness, counted)),
            ("upstreams", lambda: resources.reconfigure(options, state)),
            ("decision log", self._configure_decision_log),
            ("log", lambda: configure_logs(options.log_level, options.proxy_log_level, readable=options.gate_debug)),
            ("gRPC", lambda: self._rpc.reload(options)),
            ("autocert", lambda: self.autocert.reconfigure(options)),
        ]
        self._background = [task for task in self._background if not task.done()]
        if old.bearers is not None:
            self.run_in_background(old.bearers.close(STOP_GRACE_SECONDS), "old bearer tokens")
        if old.authenticate is not None:
            old.authenticate.on_replaced(options)
            self.run_in_background(old.authenticate.stop(STOP_GRACE_SECONDS), "old sign-ins")
        if services.authenticate is not None:
            steps.append(("sign-in", partial(services.authenticate.start, is_primary=self.peers.is_primary)))
        if old.directory is not None:  # first, so that its lease is free for the new one
            steps.append(("directory of before", partial(old.directory.stop, STOP_GRACE_SECONDS)))
        if services.directory is not None and self.peers.is_primary:
            steps.append(("directory", services.directory.start))
        for part, step in steps:
            await reload.apply(part, step)

    def _build_next(self) -> tuple[Services, ConfigProvenance]:
        with background_build():
            written = self.source.load()
            options = keep_restart_only_values(written, self.options)
            provenance = self.provenance.advance(self.options, self.status, ConfigSnapshot(written, self.source.source_map), options)
            return self.builder.build(options, self.services), provenance

    async def stop(self) -> None:
        await self.peers.stop()
        for task in self._background:
            task.cancel()
        self.autocert.stop()
        self._metrics.close()
        for part in (self.services.authenticate, self.services.directory):
            if part is not None:
                await part.stop()
        if self.services.bearers is not None:
            await self.services.bearers.close()
        if self.envoy is not None:
            await self.envoy.stop()
        await self._resources.close()
        await self._resources.decision_log.flush()
        await self._rpc.stop_serving()
        await self.databroker.stop()
        await self._rpc.close()
        await asyncio.to_thread(tracer.stop)
        log.info("gate stopped")
