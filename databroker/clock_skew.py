"""Clock skew between this machine and the store: what has expired is said by clocks, so a wrong one signs people out."""

import asyncio
from contextlib import suppress
from typing import Protocol

import structlog

from foundation.errors import BrokerError
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

LOOK_EVERY = 30.0  # seconds
# Less than what answers to questions take and clocks without a fault differ by.
BORNE = 5.0
AGAIN_AFTER = 20  # looks until a difference that lasts is said again


class ClockSkewSource(Protocol):
    """A store with a clock of its own, perhaps."""

    async def clock_skew(self) -> float: ...


class ClockWatch:
    """Log and metric of the skew; `tell` is given each measured one, in seconds: positive where our clock is ahead."""

    def __init__(self) -> None:
        self._since = 0  # looks since it differs

    def tell(self, skew: float) -> None:
        metrics.clock_skew.set(skew)
        if abs(skew) <= BORNE:
            if self._since:
                log.info("this machine's clock agrees with the store's again")
            self._since = 0
            return
        if self._since % AGAIN_AFTER == 0:
            log.error("this machine's clock differs from the store's: set one of them right", seconds_ahead=round(skew, 1))
        self._since += 1


async def watch(clocks: ClockSkewSource) -> None:
    """Measure for ever; a store that is away is told of elsewhere."""
    told = ClockWatch()
    while True:
        with suppress(BrokerError):
            told.tell(await clocks.clock_skew())
        await asyncio.sleep(LOOK_EVERY)
