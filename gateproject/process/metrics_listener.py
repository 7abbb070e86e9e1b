"""Where is `metrics_address` served?  The port is taken before anything changes, so that an address that can't be had changes nothing."""

import socket

import structlog

from config.options import Options
from foundation.errors import ConfigError
from foundation.telemetry.exposition import metrics
from foundation.values import HostPort
from proxy.listener.listen import SideDoor, bind

log = structlog.get_logger(__name__)

SETTING = "metrics_address"


class MetricsListener:
    def __init__(self) -> None:
        self._address: HostPort | None = None
        self._door: SideDoor | None = None

    def take(self, options: Options) -> socket.socket | None:
        """The port of a new address; None where there is nothing new.  ConfigError where it can't be had."""
        address = options.metrics_address
        return None if address is None or address == self._address else bind(address, SETTING)

    async def retake(self, options: Options) -> socket.socket | None:
        """As `take`, and where our own listener is in the way, because only the host is another, that one makes room."""
        try:
            return self.take(options)
        except ConfigError:
            before, address = self._address, options.metrics_address
            if before is None or address is None or before.port != address.port:
                raise
            return await self._in_the_place_of(before, address)

    async def _in_the_place_of(self, before: HostPort, address: HostPort) -> socket.socket:
        assert self._door is not None, "an address is served by a door"
        self._address, closed = None, self._door.close()
        await closed
        try:
            return bind(address, SETTING)
        except ConfigError:
            self._door = SideDoor(metrics, bind(before, SETTING))
            self._address = before
            raise

    def serve(self, options: Options, taken: socket.socket | None) -> None:
        """`taken` is what was taken for the same options."""
        if options.metrics_address == self._address:
            return
        self.close()
        self._address = options.metrics_address
        self._door = SideDoor(metrics, taken) if taken is not None else None
        log.info("metrics are served at", address=None if self._address is None else str(self._address))

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
