"""Publishes Envoy's configuration, and tracks whether Envoy has applied it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

from config.options import Options
from config.routes.route import Route
from foundation.errors import ConfigError, Problem
from foundation.tasks import spawn
from proxy.envoy.proxied.active_requests import ActiveRequests
from proxy.envoy.resources.bootstrap import Json
from proxy.envoy.resources.certificate_secrets import EnvoyCertificates
from proxy.envoy.resources.file_discovery import ConfigurationRejected, Discovery, DiscoveryTimeout
from proxy.envoy.resources.upstream_clusters import EnvoyClusters, with_primary
from proxy.upstreams.outgoing_request import Upstream

log = structlog.get_logger(__name__)

RETRY_INTERVAL = 1.0  # seconds
_Published = tuple[Options, EnvoyClusters, Mapping[str, str]]


class EnvoyConfigPublisher:
    """Publisher for one Envoy. `pending_reason` is why Envoy has not applied the last configuration, or ""."""

    pending_reason = ""
    _retry_task: asyncio.Task[None] | None = None

    def __init__(
        self,
        options: Options,
        discovery: Discovery,
        certificates: EnvoyCertificates,
        active_requests: ActiveRequests,
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
        # Clusters of this configuration, of the previous one, and of those that are not published yet; JSON by name.
        self._retained: Mapping[str, str] = {}
        self._revision = 0  # incremented with each change
        self._previous: _Published = options, self._clusters, self._retained

    def __repr__(self) -> str:
        return f"<EnvoyConfigPublisher {self._clusters}>"

    def publish(self) -> None:
        """Publish the configuration that Envoy starts with."""
        self._clusters, listeners = self._render(self.options)
        self._retained = self._clusters.resources
        self._discovery.publish(listeners, self._certificates.reconfigure(self.options))
        self._discovery.start(self._retained)

    async def wait_applied(self) -> None:
        """Wait until Envoy has applied its initial configuration. Raises ConfigError with the reason if Envoy rejects it."""
        try:
            await self._discovery.wait_applied(self._clusters.resources, is_start=True)
        except ConfigurationRejected as error:
            raise ConfigError([_build_problem(error)]) from error

    async def prepare(self, options: Options) -> str:
        """Publish a configuration to Envoy, before gate applies it. Return why Envoy has not applied it yet, or "".

        Publishing early is safe because Envoy checks every request with gate. Until Envoy has applied a new cluster, gate forwards
        those requests itself, so clusters that Envoy cannot reject are published without waiting. An unresponsive Envoy does not delay
        a policy: it reads the files later. Raises ConfigError if Envoy rejects the configuration, after rolling back.
        """
        clusters, listeners = await asyncio.to_thread(self._render, options)
        self._previous = self.options, self._clusters, self._retained
        is_published = self._retained.keys() <= self._discovery.clusters.keys()
        self._retained = {**(self._clusters.resources if is_published else self._retained), **clusters.resources}
        self._clusters = clusters
        self._revision += 1
        try:
            is_new = self._discovery.publish(listeners, self._certificates.reconfigure(options))
            if clusters.needs_validation:
                await self._publish_clusters()
            if is_new or clusters.needs_validation:
                await self._discovery.wait_applied(clusters.resources if clusters.needs_validation else ())
                self.pending_reason = self.pending_reason if self._count_unapplied() else ""
        except DiscoveryTimeout as timeout:
            self._mark_pending(timeout)
        except (ConfigurationRejected, OSError) as error:
            self.rollback()
            raise ConfigError([_build_problem(error)]) from error
        self.options = options
        self._schedule_retry()
        return self.pending_reason

    def rollback(self) -> None:
        """Roll back to the configuration before `prepare`, without waiting, because Envoy has accepted it before."""
        self.options, self._clusters, self._retained = self._previous
        self._revision += 1
        with suppress(OSError):
            self._discovery.publish(self._build_listeners(self.options), self._certificates.reconfigure(self.options))
        self._schedule_retry()

    def stop(self) -> None:
        """Stop publishing and polling."""
        if self._retry_task is not None:
            self._retry_task.cancel()

    def find_cluster(self, upstream: Upstream, route: Route) -> str | None:
        """Return the name of the upstream's cluster, or None if Envoy has not applied it."""
        name = self._clusters.name(upstream, route)
        return name if name in self._discovery.applied_clusters else None

    def _render(self, options: Options) -> tuple[EnvoyClusters, list[Json]]:
        """Render clusters and listeners. Has no side effects, and may run in any thread."""
        family, by_route = options.dns_lookup_family, options.has_route_metrics
        clusters = EnvoyClusters(
            options.policy, family, by_route=by_route, max_connections=self._max_upstream_connections, previous=self._clusters
        )
        return clusters, self._build_listeners(options)

    async def _publish_clusters(self) -> None:
        # A request may have been authorized with a cluster of the previous configuration; while its body is incomplete, of an older one.
        written = self._discovery.clusters
        named = {name: written[name] for used in self._active_requests.clusters() for name in with_primary(used) if name in written}
        await self._discovery.publish_clusters({**named, **self._retained})

    def _count_unapplied(self) -> int:
        return len(self._clusters.resources.keys() - self._discovery.applied_clusters)

    def _schedule_retry(self) -> None:
        if missing := self._count_unapplied():
            log.info("waiting for envoy to apply clusters", upstreams=missing)
        is_behind = bool(self.pending_reason) or self._retained.keys() != self._discovery.clusters.keys()
        if (missing or is_behind) and (self._retry_task is None or self._retry_task.done()):
            self._retry_task = spawn(self._retry_publish(), name="envoy configuration retry")

    async def _retry_publish(self) -> None:
        """Publish deferred clusters, and poll until Envoy has applied them.

        Envoy reads all clusters each time, so changes are batched.
        """
        applied_revision = -1
        while applied_revision != self._revision or self._count_unapplied():
            await asyncio.sleep(RETRY_INTERVAL)
            revision, clusters = self._revision, self._clusters
            try:
                await self._publish_clusters()
                await self._discovery.wait_applied(clusters.resources)
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
