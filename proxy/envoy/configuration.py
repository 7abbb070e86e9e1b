"""Configuration of Envoy: what follows from gate's own, and whether Envoy has taken it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from config.options import Options
from config.routes.route import Route
from foundation.errors import ConfigError, Problem
from foundation.tasks import spawn
from proxy.envoy.carried.carried_requests import CarriedRequests
from proxy.envoy.resources.bootstrap import CLUSTERS, Json
from proxy.envoy.resources.certificates import EnvoyCertificates
from proxy.envoy.resources.clusters import EnvoyClusters, with_parts
from proxy.envoy.resources.discovery import ConfigurationRejected, Discovery, DiscoveryTimeout
from proxy.upstreams.request import Upstream

log = structlog.get_logger(__name__)

CATCH_UP_EVERY = 1.0  # seconds


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
    ):
        self.options = options
        self._discovery = discovery
        self._certificates = certificates
        self._carried = carried
        self._listeners = listeners
        self._clusters = EnvoyClusters((), options.dns_lookup_family)
        self._before = options, self._clusters

    def __repr__(self) -> str:
        return f"<EnvoyConfiguration {self._clusters}>"

    def publish(self) -> None:
        """Publish what Envoy starts with."""
        self._publish(*self._following(self.options), self.options)

    async def taken(self) -> None:
        """Wait until Envoy has what it starts with; ConfigError with its reasons where it does not take that."""
        try:
            await self._discovery.taken(self._clusters.resources, is_start=True)
        except ConfigurationRejected as error:
            raise ConfigError([_refusal(error)]) from error

    async def prepare(self, options: Options) -> str:
        """Have Envoy take what follows from a configuration, before anything else changes; why it is late, or "".

        ConfigError where it refuses, and then it has what it had.  It asks gate about each request, so what it knows too early lets
        nobody in; until it knows a new upstream, our own data plane carries what is for it.  So nobody waits for upstreams that it has
        no reason to refuse, nor where nothing is new to it.  An Envoy that says nothing holds up no policy: it reads the files when it
        is back.
        """
        following = await asyncio.to_thread(self._following, options)
        self._before = self.options, self._clusters
        self.stop()
        try:
            changed = self._publish(*following, options)
            if changed - {CLUSTERS} or (changed and self._clusters.may_be_refused):
                await self._discovery.taken(self._clusters.resources)
                self.late = ""
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
        self.stop()
        self.options, self._clusters = self._before
        with suppress(OSError):
            self._publish(*self._following(self.options), self.options)
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
        family, by_route = options.dns_lookup_family, options.measures_routes
        return EnvoyClusters(options.policy, family, by_route=by_route, previous=self._clusters), self._listeners(options)

    def _publish(self, clusters: EnvoyClusters, listeners: list[Json], options: Options) -> frozenset[str]:
        """The names of the files that Envoy has to read."""
        # A request that was judged just now may still name a cluster of before, and one whose body is not whole an older one.
        before, self._clusters = self._clusters, clusters
        written = self._discovery.clusters
        named = {name: written[name] for used in self._carried.clusters() for name in with_parts(used) if name in written}
        wanted = named | before.resources | clusters.resources
        return self._discovery.publish(listeners, wanted, self._certificates.use(options))

    def _catch_up_soon(self) -> None:
        missing = len(self._clusters.resources.keys() - self._discovery.known)
        if missing:
            log.info("gate carries what is for new upstreams until envoy has them", upstreams=missing)
        if missing or self.late:
            self._catching_up = spawn(self._catch_up(), name="envoy catches up")

    async def _catch_up(self) -> None:
        """Learn when Envoy has taken what nobody waits for."""
        while True:
            try:
                await self._discovery.taken(self._clusters.resources)
            except (ConfigurationRejected, OSError) as error:
                self._is_late(error)
                await asyncio.sleep(CATCH_UP_EVERY)
            else:
                self.late = ""
                log.info("envoy has taken the new configuration")
                return

    def _is_late(self, reason: Exception) -> None:
        if not self.late:
            log.error("envoy has not taken the new configuration yet", reason=str(reason))
        self.late = str(reason)


def _refusal(error: Exception) -> Problem:
    if isinstance(error, OSError):
        return Problem("data_plane", f"envoy can't be told of the configuration: {error.strerror or type(error).__name__}")
    return Problem("data_plane", f"envoy refuses what follows from the configuration: {error}")
