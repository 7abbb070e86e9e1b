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

RETRY_INTERVAL = 1.0  # seconds
_Published = tuple[Options, EnvoyClusters, Mapping[str, str]]


class EnvoyConfigPublisher:
    """Configuration of one Envoy.  `late` says why it has not taken the last one yet, "" where nothing is wrong."""

    pending_reason = ""
    _retry_task: asyncio.Task[None] | None = None

    def __init__(
        self,
        options: Options,
        discovery: Discovery,
        certificates: EnvoyCertificates,
        active_requests: CarriedRequests,
        build_listeners: Callable[[Options], list[Json]],
        max_upstream_connections: int,
    ):
        self.options = options
        self._discovery = discovery
        self._certificates = certificates
        self._active_requests = active_requests
        self._build_listeners = build_listeners
        self._max_upstream_connections = max_upstream_connections
        self._clusters = EnvoyClusters((), options.dns_lookup_family)
        # Those of this configuration, of the one before, and of all that Envoy has not been told of yet.
        self._retained: Mapping[str, str] = {}
        self._revision = 0  # another one whenever any of this changes
        self._previous: _Published = options, self._clusters, self._retained

    def __repr__(self) -> str:
        return f"<EnvoyConfigPublisher {self._clusters}>"

    def publish(self) -> None:
        """Publish what Envoy starts with."""
        self._clusters, listeners = self._render(self.options)
        self._retained = self._clusters.resources
        self._discovery.publish(listeners, self._certificates.use(self.options))
        self._discovery.begin(self._retained)

    async def wait_applied(self) -> None:
        """Wait until Envoy has what it starts with; ConfigError with its reasons where it does not take that."""
        try:
            await self._discovery.taken(self._clusters.resources, is_start=True)
        except ConfigurationRejected as error:
            raise ConfigError([_build_problem(error)]) from error

    async def prepare(self, options: Options) -> str:
        """Have Envoy take what follows from a configuration, before anything else changes; why it is late, or "".

        ConfigError where it refuses, and then it has what it had.  It asks gate about each request, so what it knows too early lets
        nobody in; until it knows a new upstream, our own data plane carries what is for it.  So upstreams that it has no reason to refuse
        it is told of later, and nobody waits where nothing is new to it.  An Envoy that says nothing holds up no policy: it reads the
        files when it is back.
        """
        clusters, listeners = await asyncio.to_thread(self._render, options)
        self._previous = self.options, self._clusters, self._retained
        is_published = self._retained.keys() <= self._discovery.clusters.keys()
        self._retained = {**(self._clusters.resources if is_published else self._retained), **clusters.resources}
        self._clusters = clusters
        self._revision += 1
        try:
            is_new = self._discovery.publish(listeners, self._certificates.use(options))
            if clusters.may_be_refused:
                await self._publish_clusters()
            if is_new or clusters.may_be_refused:
                await self._discovery.taken(clusters.resources if clusters.may_be_refused else ())
                self.pending_reason = self.pending_reason if self._count_unapplied() else ""
        except DiscoveryTimeout as late:
            self._mark_pending(late)
        except (ConfigurationRejected, OSError) as error:
            self.rollback()
            raise ConfigError([_build_problem(error)]) from error
        self.options = options
        self._schedule_retry()
        return self.pending_reason

    def rollback(self) -> None:
        """Roll back to what Envoy had before `prepare`; it took that once, so nobody waits for it."""
        self.options, self._clusters, self._retained = self._previous
        self._revision += 1
        with suppress(OSError):
            self._discovery.publish(self._build_listeners(self.options), self._certificates.use(self.options))
        self._schedule_retry()

    def stop(self) -> None:
        """Ask no more whether Envoy has taken it."""
        if self._retry_task is not None:
            self._retry_task.cancel()

    def find_cluster(self, upstream: Upstream, route: Route) -> str | None:
        """Name of a cluster that Envoy has; None where it has none for this."""
        name = self._clusters.name(upstream, route)
        return name if name in self._discovery.known else None

    def _render(self, options: Options) -> tuple[EnvoyClusters, list[Json]]:
        """Clusters and listeners; called in any thread, and changes nothing."""
        family, by_route = options.dns_lookup_family, options.has_route_metrics
        clusters = EnvoyClusters(
            options.policy, family, by_route=by_route, max_connections=self._max_upstream_connections, previous=self._clusters
        )
        return clusters, self._build_listeners(options)

    async def _publish_clusters(self) -> None:
        # A request that was judged just now may still name a cluster of before, and one whose body is not whole an older one.
        written = self._discovery.clusters
        named = {name: written[name] for used in self._active_requests.clusters() for name in with_parts(used) if name in written}
        await self._discovery.publish_clusters({**named, **self._retained})

    def _count_unapplied(self) -> int:
        return len(self._clusters.resources.keys() - self._discovery.known)

    def _schedule_retry(self) -> None:
        if missing := self._count_unapplied():
            log.info("waiting for envoy to apply clusters", upstreams=missing)
        is_behind = bool(self.pending_reason) or self._retained.keys() != self._discovery.clusters.keys()
        if (missing or is_behind) and (self._retry_task is None or self._retry_task.done()):
            self._retry_task = spawn(self._retry_publish(), name="envoy catches up")

    async def _retry_publish(self) -> None:
        """Tell Envoy of what nobody waits for, and learn when it has taken that.

        It reads all clusters, however few are new: so not at once, and what changes meanwhile with them.
        """
        applied_revision = -1
        while applied_revision != self._revision or self._count_unapplied():
            await asyncio.sleep(RETRY_INTERVAL)
            revision, clusters = self._revision, self._clusters
            try:
                await self._publish_clusters()
                await self._discovery.taken(clusters.resources)
                applied_revision = revision
            except (ConfigurationRejected, OSError) as error:
                self._mark_pending(error)
        self.pending_reason = ""
        log.info("envoy configuration applied")

    def _mark_pending(self, reason: Exception) -> None:
        if not self.pending_reason:
            log.error("envoy configuration pending", reason=str(reason))
        self.pending_reason = str(reason)


def _build_problem(error: Exception) -> Problem:
    if isinstance(error, OSError):
        return Problem("data_plane", f"cannot publish the configuration to envoy: {error.strerror or type(error).__name__}")
    return Problem("data_plane", f"envoy rejected the generated configuration: {error}")
