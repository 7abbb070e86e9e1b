"""Shared resources: connection pools, open streams and observers that outlive a configuration."""

from dataclasses import dataclass, field

from authorize.decision_log.decision_log import DecisionLog, OnSessionActivity
from config.options import Options
from databroker.broker_client import BrokerClient
from proxy.forwarding.http_forwarding import DisconnectWatches
from proxy.planes.open_streams import OpenStreams
from proxy.route_forwarding import ForwardingTable
from proxy.upstreams.health_checks import HealthChecks
from proxy.upstreams.route_statistics import ActiveRouteStatistics
from proxy.upstreams.upstream_client import UpstreamClient


@dataclass(slots=True)
class SharedResources:
    """Upstream connections, open streams and observers, which outlive configuration reloads.

    `on_session_activity` is called with session id, time and host for each allowed request of a session.
    `active_forwarding_table` is that of the current configuration; the next one reuses its unchanged entries.
    """

    decision_log: DecisionLog = field(default_factory=lambda: DecisionLog(lambda entries: None))
    upstream_client: UpstreamClient = field(default_factory=UpstreamClient)
    streams: OpenStreams = field(default_factory=OpenStreams)
    on_session_activity: OnSessionActivity = lambda session_id, now, host: None
    broker: BrokerClient | None = None  # stores forms that are sent without a session; None: forms are not saved
    statistics: ActiveRouteStatistics = field(default_factory=ActiveRouteStatistics)
    disconnect_watches: DisconnectWatches = field(default_factory=DisconnectWatches)
    active_forwarding_table: ForwardingTable | None = None
    health: HealthChecks = field(init=False)

    def __post_init__(self) -> None:
        self.health = HealthChecks(self.upstream_client)

    def reconfigure(self, options: Options, forwarding_table: ForwardingTable | None) -> None:
        """Switch to a configuration.  Must be called on the event loop."""
        self.active_forwarding_table = forwarding_table
        self.upstream_client.reconfigure(options.dns_lookup_family)
        self.upstream_client.upstream_errors.clear()
        serves_routes = options.services in ("all", "proxy")
        self.health.update(forwarding_table.clusters.members() if forwarding_table is not None and serves_routes else ())
        self.statistics.activate(forwarding_table.activate_statistics() if forwarding_table is not None and serves_routes else ())

    async def close(self) -> None:
        self.health.close()
        await self.upstream_client.close()
