"""Configuration of Envoy: what follows from gate's own, and whether Envoy has taken it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

from config.options import Options
from config.routes.route import Route
from foundation.errors import ConfigError, Problem
from foundation.tasks import spawn
from proxy.envoy.proxied.active_requests import CarriedRequests
from proxy.envoy.resources.bootstrap import Json
from proxy.envoy.resources.certificate_secrets import EnvoyCertificates
from proxy.envoy.resources.file_discovery import ConfigurationRejected, Discovery, DiscoveryTimeout
from proxy.envoy.resources.upstream_clusters import EnvoyClusters, with_parts
from proxy.upstreams.outgoing_request import Upstream

log = structlog.get_logger(__name__)

CATCH_UP_EVERY = 1.0  # seconds
_Told = tuple[Options, EnvoyClusters, Mapping[str, str]]


class EnvoyConfiguration:
    """Configuration of one Envoy.  `late` says why it has not taken the last one yet, "" where nothing is wrong."""

    late = ""
    _catching_up: asyncio.Task[None] | None = None

    def __init__(
        self,
        options: Options,
        discovery: Discovery,
        certificates: EnvoyCertificates,
        carried: CarriedRequests,
        listeners: Callable[[Options], list[Json]],
        to_upstream: int,
    ):
        self.options = options
        self._discovery = discovery
        self._certificates = certificates
        self._carried = carried
        self._listeners = listeners
        self._to_upstream = to_upstream
        self._clusters = EnvoyClusters((), options.dns_lookup_family)
        # Those of this configuration, of the one before, and of all that Envoy has not been told of yet.
        self._recent: Mapping[str, str] = {}
        self._revision = 0  # another one whenever any of this changes
        self._before: _Told = options, self._clusters, self._recent

    def __repr__(self) -> str:
        return f"<EnvoyConfiguration {self._clusters}>"

    def publish(self) -> None:
        """Publish what Envoy starts with."""
        self._clusters, listeners = self._following(self.options)
        self._recent = self._clusters.resources
        self._discovery.publish(listeners, self._certificates.use(self.options))
        self._discovery.begin(self._recent)

    async def taken(self) -> None:
        """Wait until Envoy has what it starts with; ConfigError with its reasons where it does not take that."""
        try:
            await self._discovery.taken(self._clusters.resources, is_start=True)
        except ConfigurationRejected as error:
            raise ConfigError([_refusal(error)]) from error

    async def prepare(self, options: Options) -> str:
        """Have Envoy take what follows from a configuration, before anything else changes; why it is late, or "".

        ConfigError where it refuses, and then it has what it had.  It asks gate about each request, so what it knows too early lets
        nobody in; until it knows a new upstream, our own data plane carries what is for it.  So upstreams that it has no reason to refuse
        it is told of later, and nobody waits where nothing is new to it.  An Envoy that says nothing holds up no policy: it reads the
        files when it is back.
        """
        clusters, listeners = await asyncio.to_thread(self._following, options)
        self._before = self.options, self._clusters, self._recent
        is_told = self._recent.keys() <= self._discovery.clusters.keys()
        self._recent = {**(self._clusters.resources if is_told else self._recent), **clusters.resources}
        self._clusters = clusters
        self._revision += 1
        try:
            is_new = self._discovery.publish(listeners, self._certificates.use(options))
            if clusters.may_be_refused:
                await self._publish_clusters()
            if is_new or clusters.may_be_refused:
                await self._discovery.taken(clusters.resources if clusters.may_be_refused else ())
                self.late = self.late if self._missing() else ""
        except DiscoveryTimeout as late:
            self._is_late(late)
        except (ConfigurationRejected, OSError) as error:
            self.restore()
            raise ConfigError([_refusal(error)]) from error
        self.options = options
        self._catch_up_soon()
        return self.late

    def restore(self) -> None:
        """Roll back to what Envoy had before `prepare`; it took that once, so nobody waits for it."""
        self.options, self._clusters, self._recent = self._before
        self._revision += 1
        with suppress(OSError):
            self._discovery.publish(self._listeners(self.options), self._certificates.use(self.options))
        self._catch_up_soon()

    def stop(self) -> None:
        """Ask no more whether Envoy has taken it."""
        if self._catching_up is not None:
            self._catching_up.cancel()

    def cluster_of(self, upstream: Upstream, route: Route) -> str | None:
        """Name of a cluster that Envoy has; None where it has none for this."""
        name = self._clusters.name(upstream, route)
        return name if name in self._discovery.known else None

    def _following(self, options: Options) -> tuple[EnvoyClusters, list[Json]]:
        """Clusters and listeners; called in any thread, and changes nothing."""
        family, by_route = options.dns_lookup_family, options.has_route_metrics
        clusters = EnvoyClusters(options.policy, family, by_route=by_route, max_connections=self._to_upstream, previous=self._clusters)
        return clusters, self._listeners(options)

    async def _publish_clusters(self) -> None:
        # A request that was judged just now may still name a cluster of before, and one whose body is not whole an older one.
        written = self._discovery.clusters
        named = {name: written[name] for used in self._carried.clusters() for name in with_parts(used) if name in written}
        await self._discovery.publish_clusters({**named, **self._recent})

    def _missing(self) -> int:
        return len(self._clusters.resources.keys() - self._discovery.known)

    def _catch_up_soon(self) -> None:
        if missing := self._missing():
            log.info("waiting for envoy to apply clusters", upstreams=missing)
        is_behind = bool(self.late) or self._recent.keys() != self._discovery.clusters.keys()
        if (missing or is_behind) and (self._catching_up is None or self._catching_up.done()):
            self._catching_up = spawn(self._catch_up(), name="envoy catches up")

    async def _catch_up(self) -> None:
        """Tell Envoy of what nobody waits for, and learn when it has taken that.

        It reads all clusters, however few are new: so not at once, and what changes meanwhile with them.
        """
        taken = -1
        while taken != self._revision or self._missing():
            await asyncio.sleep(CATCH_UP_EVERY)
            following, clusters = self._revision, self._clusters
            try:
                await self._publish_clusters()
                await self._discovery.taken(clusters.resources)
                taken = following
            except (ConfigurationRejected, OSError) as error:
                self._is_late(error)
        self.late = ""
        log.info("envoy configuration applied")

    def _is_late(self, reason: Exception) -> None:
        if not self.late:
            log.error("envoy configuration pending", reason=str(reason))
        self.late = str(reason)


def _refusal(error: Exception) -> Problem:
    if isinstance(error, OSError):
        return Problem("data_plane", f"cannot publish the configuration to envoy: {error.strerror or type(error).__name__}")
    return Problem("data_plane", f"envoy rejected the generated configuration: {error}")
