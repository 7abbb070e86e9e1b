"""Clock skew between this machine and the store: what has expired is said by clocks, so a wrong one signs people out."""

import asyncio

import structlog

from databroker.store.base import StoreBackend
from foundation.errors import BrokerError
from foundation.readiness import HealthTracker
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

POLL_INTERVAL = 10.0  # seconds
# Less than what answers to questions take and clocks without a fault differ by.
MAX_SKEW_SECONDS = 5.0
POLLS_PER_LOG = 60  # looks until a difference that lasts is said again


class ClockSkewMonitor:
    """Log and metric of the skew; `tell` is given each measured one, in seconds: positive where our clock is ahead.

    `answers` says whether the store does, to which nobody else here may have anything to say.
    """

    def __init__(self) -> None:
        self.skew = 0.0
        self.store_health = HealthTracker()
        self._polls_over_limit = 0  # looks since it differs

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
        """Measure for ever; the log hears elsewhere of a store that is away."""
        while True:
            try:
                self.observe(await store.clock_skew())
                self.store_health.mark_up()
            except BrokerError as error:
                self.store_health.mark_down(str(error))
            await asyncio.sleep(POLL_INTERVAL)
