"""Clock skew between this machine and the store.  A wrong clock ends sessions early."""

import asyncio

import structlog

from databroker.store.base import StoreBackend
from foundation.errors import BrokerError
from foundation.readiness import HealthTracker
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

POLL_INTERVAL = 10.0  # seconds
# A difference up to this can be due to response times and to the normal deviation of clocks.
MAX_SKEW_SECONDS = 5.0
POLLS_PER_LOG = 60  # a lasting difference is logged again after that number of polls


class ClockSkewMonitor:
    """Monitor that logs the skew and exports it as a metric.

    `skew` is the last measurement in seconds, positive if this machine's clock is ahead.  `store_health` records whether the store
    responds: a process without a replica has no other source for that.
    """

    def __init__(self) -> None:
        self.skew = 0.0
        self.store_health = HealthTracker()
        self._polls_over_limit = 0  # polls since the limit was exceeded

    @property
    def exceeds_limit(self) -> bool:
        return abs(self.skew) > MAX_SKEW_SECONDS

    def observe(self, skew: float) -> None:
        metrics.clock_skew.set(skew)
        self.skew = skew
        if not self.exceeds_limit:
            if self._polls_over_limit:
                log.info("clock skew resolved")
            self._polls_over_limit = 0
            return
        if self._polls_over_limit % POLLS_PER_LOG == 0:
            log.error("clock skew exceeds limit", seconds_ahead=round(skew, 1))
        self._polls_over_limit += 1

    async def run(self, store: StoreBackend) -> None:
        """Measure forever.  Other components log that the store is unavailable."""
        while True:
            try:
                self.observe(await store.clock_skew())
                self.store_health.mark_up()
            except BrokerError as error:
                self.store_health.mark_down(str(error))
            await asyncio.sleep(POLL_INTERVAL)
