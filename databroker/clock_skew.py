"""Clock skew between this machine and the store: what has expired is said by clocks, so a wrong one signs people out."""

import asyncio

import structlog

from databroker.store.base import StoreBackend
from foundation.errors import BrokerError
from foundation.readiness import HealthTracker
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

LOOK_EVERY = 10.0  # seconds
# Less than what answers to questions take and clocks without a fault differ by.
BORNE = 5.0
AGAIN_AFTER = 60  # looks until a difference that lasts is said again


class ClockWatch:
    """Log and metric of the skew; `tell` is given each measured one, in seconds: positive where our clock is ahead.

    `answers` says whether the store does, to which nobody else here may have anything to say.
    """

    def __init__(self) -> None:
        self.skew = 0.0
        self.answers = HealthTracker()
        self._since = 0  # looks since it differs

    @property
    def differs(self) -> bool:
        return abs(self.skew) > BORNE

    def tell(self, skew: float) -> None:
        metrics.clock_skew.set(skew)
        self.skew = skew
        if not self.differs:
            if self._since:
                log.info("clock skew resolved")
            self._since = 0
            return
        if self._since % AGAIN_AFTER == 0:
            log.error("clock skew exceeds limit", seconds_ahead=round(skew, 1))
        self._since += 1

    async def run(self, store: StoreBackend) -> None:
        """Measure for ever; the log hears elsewhere of a store that is away."""
        while True:
            try:
                self.tell(await store.clock_skew())
                self.answers.mark_up()
            except BrokerError as error:
                self.answers.mark_down(str(error))
            await asyncio.sleep(LOOK_EVERY)
