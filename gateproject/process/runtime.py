"""What runs: the services built from one set of Options, their background work, how a new configuration takes over, and their end."""

import asyncio
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.conf import settings

from authenticate.bearer_tokens import BearerTokens
from authenticate.directory.service import DirectoryService
from authenticate.service import AuthenticateService
from authorize.client import Authorizer
from authorize.decisions import rows
from authorize.decisions.log import DecisionLog
from authorize.decisions.recorder import Recorder
from authorize.rpc.client import RemoteAuthorizer
from authorize.rpc.ext_authz import ExtAuthz
from authorize.service import AuthorizeService
from config.options import Options
from config.source import ConfigSource
from databroker.client import BrokerClient
from databroker.service import DataBrokerService
from databroker.store.open import open_store
from foundation.crypto.signing_key import SigningKey
from foundation.errors import ConfigError, Problem
from foundation.tasks import spawn
from foundation.telemetry import metrics
from foundation.telemetry.logs import configure_logs
from foundation.telemetry.tracing import tracer
from foundation.version import version
from gateproject.process.gc_tuning import made_beside_requests, settle
from gateproject.process.metrics_listener import MetricsListener
from gateproject.process.restart_only import without_restart_only_changes
from gateproject.process.rpc_services import RpcServices
from gateproject.process.takeover import ConfigurationStatus, Takeover
from gateproject.settings import cookie_settings
from proxy.autocert.service import Autocert
from proxy.carrying import Carrying
from proxy.envoy.service import EnvoyPlane
from proxy.ext_authz import ExtAuthzResponder
from proxy.listener.state import ListenerState
from proxy.service import ProxyService

log = structlog.get_logger(__name__)

LOOK_EVERY = 1.0  # seconds between two looks at the configuration's files
SIGN_IN_SECONDS = 60.0  # how long a sign-in may still talk to the provider after a reload; four exchanges end within that


@dataclass(frozen=True, slots=True)
class World:
    """Everything that one request needs.  A handler reads it once, on its first line, so that a request sees one world.

    A process has of these what its `services` need; nothing that it serves asks for the others, and they are `ABSENT`.
    """

    options: Options
    broker: BrokerClient
    authorize: Authorizer
    bearers: BearerTokens | None
    authenticate: AuthenticateService
    directory: DirectoryService
    proxy: ProxyService
    words: ExtAuthzResponder
    listener: ListenerState
    signing_key: SigningKey
    tracing: tracer.Tracer | None


ABSENT: Any = None
SIGNS_IN = ("all", "authenticate")
KEEPS_DIRECTORY = (*SIGNS_IN, "databroker")
SERVES_PEOPLE = ("all", "authenticate", "proxy")
SERVES_GRPC_ONLY = ("authorize", "databroker")


@dataclass(slots=True)
class Runtime:
    """What `services` names, in this process."""

    options: Options
    source: ConfigSource
    clock: Callable[[], float] = time.time
    world: World = field(init=False)
    status: ConfigurationStatus = field(init=False)
    autocert: Autocert = field(default_factory=Autocert)
    _rpc: RpcServices = field(init=False)
    _databroker: DataBrokerService = field(init=False)
    _carrying: Carrying = field(init=False)
    envoy: EnvoyPlane | None = None
    _metrics: MetricsListener = field(default_factory=MetricsListener)
    _background: list[asyncio.Task[Any]] = field(default_factory=list)
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._rpc = RpcServices(self.options, self.clock)
        store = open_store(self.options, self.clock) if self._rpc.broker is None else None
        self._databroker = DataBrokerService(
            store,
            self.clock,
            remote=self._rpc.broker,
            staleness=self.options.session_staleness.total_seconds(),
            has_replica=self.options.services != "databroker",
            has_tables=self.options.services in SIGNS_IN,
            tells_activity=self.options.tells_the_admin,
        )
        decisions = DecisionLog(rows.write, clock=self.clock)
        self._carrying = Carrying(decisions, saw=self._databroker.activity.saw, broker=self._databroker.client)
        with made_beside_requests():
            self.world = self._build(self.options)
        self.status = ConfigurationStatus.in_force(self.source, self.options.service_label)
        tracer.use(self.world.tracing)
        metrics.running(self.options.service_label, version())
        self._keep_decisions()

    def _build(self, options: Options, previous: World | None = None) -> World:
        """Raises ConfigError; nothing that runs is touched."""
        services, broker = options.services, self._databroker.client
        previous_key = None if previous is None else previous.signing_key
        signing_key = SigningKey.from_options(options, previous_key) if services not in ("proxy", "databroker") else ABSENT
        bearers = BearerTokens.of(options, self.clock) if services in ("all", "authorize") else None
        authorize = self._authorizer(options, signing_key, previous, bearers)
        proxy_before, listener_before = (previous.proxy, previous.listener) if previous else (None, None)
        signs_in, serves_people = services in SIGNS_IN, services in SERVES_PEOPLE
        directory = DirectoryService(options, broker, self.clock) if services in KEEPS_DIRECTORY else ABSENT
        return World(
            options=options,
            broker=broker,
            authorize=authorize,
            bearers=bearers,
            authenticate=AuthenticateService(options, broker, signing_key, self.clock, directory) if signs_in else ABSENT,
            directory=directory,
            proxy=ProxyService(options, authorize, self._carrying, self.clock, proxy_before) if serves_people else ABSENT,
            words=ExtAuthzResponder(options, authorize, self._carrying, self.clock) if services in ("all", "authorize") else ABSENT,
            listener=ListenerState.build(
                options, listener_before, lambda name: self.world.authorize.wants_certificate(name), self.autocert.obtained
            ),
            signing_key=signing_key,
            tracing=tracer.Tracer.of(options, previous.tracing if previous else None),
        )

    def _authorizer(self, options: Options, signing_key: SigningKey, previous: World | None, bearers: BearerTokens | None) -> Authorizer:
        if options.services == "databroker":
            return ABSENT
        before = previous.authorize if previous else None
        if self._rpc.authorize is not None:
            return RemoteAuthorizer(options, self._rpc.authorize, lambda: self._databroker.replica.seen, before)
        return AuthorizeService(options, self._databroker.replica, signing_key, self.clock, before, bearers)

    def _keep_decisions(self) -> None:
        if self.options.tells_the_admin:
            self._carrying.decisions.use(self.options, self.status.checksum)

    def open_grpc(self) -> None:
        """Take the port of `grpc_address`; ConfigError.  Called before the event loop runs, so that a taken port starts nothing."""
        recorder = Recorder(self._carrying.decisions, self._carrying.saw, self.clock)
        ext_authz = ExtAuthz(lambda: self.world.authorize, lambda: self.world.words, self._databroker.replica, recorder)
        self._rpc.open(self._databroker.client, ext_authz)

    def open_metrics(self) -> None:
        """Take the port of `metrics_address`; ConfigError."""
        self._metrics.serve(self.options, self._metrics.take(self.options))

    def begin(self) -> None:
        """Begin the background work; called once, when the event loop runs."""
        settle()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_soon)
        self._background.append(spawn(self._start(), name="start"))

    async def _start(self) -> None:
        self._databroker.replica.on_change(self._carrying.streams.on_change)
        await self._databroker.start()
        await self._rpc.start()
        if self.world.authenticate is not ABSENT:
            await self.world.authenticate.start()
        self._carrying.use(self.options, None if self.world.proxy is ABSENT else self.world.proxy.dataplane.state)
        if self.world.directory is not ABSENT:
            await self.world.directory.start()
        self._background.append(
            spawn(self._carrying.streams.run(lambda incoming: self.world.proxy.dataplane.may_go_on(incoming)), name="open streams")
        )
        self._background.append(spawn(self._follow_configuration(), name="configuration"))
        self._background.append(spawn(self._carrying.decisions.run(), name="decision log"))

    async def run_until(self, stop: asyncio.Event) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_soon)
        await self._start()
        self.say_ready()
        await stop.wait()
        await self.stop()

    def say_ready(self) -> None:
        ours = self.options
        log.info("gate is ready", services=ours.services, routes=len(ours.policy), authenticate=ours.authenticate_service_url.origin)

    async def _follow_configuration(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if await asyncio.to_thread(self.source.has_changed):
                await self.reload()

    def _reload_soon(self) -> None:
        self._background.append(spawn(self.reload(), name="reload"))

    async def reload(self) -> None:
        """All or nothing: what can fail is done first; then the new world is swapped in with one assignment, and each part is told."""
        async with self._reloading:  # SIGHUP and a changed file at once: else the older file could win
            try:
                await self._reload()
            except ConfigError as error:
                self.status = self.status.but_refused(error.problems, self.options.service_label)
            except Exception as error:  # files, threads: whatever it is, nobody stops looking at the configuration
                log.exception("the configuration could not be reloaded")
                problem = Problem("", f"it could not be reloaded: {type(error).__name__}: {error}")
                self.status = self.status.but_refused((problem,), self.options.service_label)

    async def _reload(self) -> None:
        options, world = await asyncio.to_thread(self._next_world)
        cookies = cookie_settings(options)
        late = await self.envoy.prepare(options) if self.envoy is not None else ""
        try:
            taken = await self._metrics.retake(options)
        except BaseException:
            if self.envoy is not None:
                self.envoy.restore()
            raise
        old, self.world, self.options = self.world, world, options
        self.status = ConfigurationStatus.in_force(self.source, self.options.service_label)
        for name, value in cookies.items():
            setattr(settings, name, value)
        takeover = Takeover()
        takeover.lags("envoy", late)
        await self._tell(old, world, taken, takeover)
        self.status = self.status.but_lagging(takeover.problems, options.service_label)
        log.info("configuration reloaded", file=self.status.file, checksum=self.status.checksum, routes=len(options.policy))

    async def _tell(self, old: World, world: World, taken: socket.socket | None, takeover: Takeover) -> None:
        """Access first: whom the new policy keeps out is out whatever becomes of the rest."""
        options, tell, carrying = world.options, takeover.tell, self._carrying
        await tell("open streams", carrying.streams.policy_changed)
        await tell("metrics", lambda: self._metrics.serve(options, taken))
        await tell("tracing", lambda: tracer.use(world.tracing))
        await tell("data broker", lambda: self._databroker.use(options.shared_secret, options.session_staleness.total_seconds()))
        await tell("upstreams", lambda: carrying.use(options, None if world.proxy is ABSENT else world.proxy.dataplane.state))
        await tell("decision log", self._keep_decisions)
        await tell("log", lambda: configure_logs(options.log_level, options.proxy_log_level, readable=options.gate_debug))
        await tell("gRPC", lambda: self._rpc.reload(options))
        await tell("autocert", lambda: self.autocert.use(options))
        self._background = [task for task in self._background if not task.done()]
        if old.bearers is not None:
            self._background.append(spawn(old.bearers.close(SIGN_IN_SECONDS), name="old bearer tokens"))
        if world.authenticate is not ABSENT:
            self._background.append(spawn(old.authenticate.stop(SIGN_IN_SECONDS), name="old sign-ins"))
            await tell("sign-in", world.authenticate.start)
        if world.directory is not ABSENT:
            # First, so that the new one finds the lease free.
            await tell("directory of before", lambda: old.directory.stop(SIGN_IN_SECONDS))
            await tell("directory", world.directory.start)

    def _next_world(self) -> tuple[Options, World]:
        with made_beside_requests():
            options = without_restart_only_changes(self.source.load(), self.options)
            return options, self._build(options, self.world)

    async def stop(self) -> None:
        for task in self._background:
            task.cancel()
        self.autocert.stop()
        self._metrics.close()
        if self.world.authenticate is not ABSENT:
            await self.world.authenticate.stop()
        if self.world.directory is not ABSENT:
            await self.world.directory.stop()
        if self.world.bearers is not None:
            await self.world.bearers.close()
        if self.envoy is not None:
            await self.envoy.stop()
        await self._carrying.close()
        await self._carrying.decisions.flush()
        await self._rpc.stop_serving()
        await self._databroker.stop()
        await self._rpc.close()
        await asyncio.to_thread(tracer.stop)
        log.info("gate has stopped")
