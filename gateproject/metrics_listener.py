"""Where is `metrics_address` served?  The port is taken before anything changes, so that an address that can't be had changes nothing."""

import socket

import structlog

from gateproject.config.options import Options
from gateproject.config.types import HostPort
from gateproject.telemetry.exposition import metrics
from proxy.listener.listen import SideDoor, bind

log = structlog.get_logger(__name__)


class MetricsListener:
    def __init__(self) -> None:
        self._address: HostPort | None = None
        self._door: SideDoor | None = None

    def take(self, options: Options) -> socket.socket | None:
        """The port of a new address; None where there is nothing new.  ConfigError where it can't be had."""
        address = options.metrics_address
        return None if address is None or address == self._address else bind(address, "metrics_address")

    def serve(self, options: Options, taken: socket.socket | None) -> None:
        """`taken` is what `take` gave for the same options."""
        if options.metrics_address == self._address:
            return
        if self._door is not None:
            self._door.close()
        self._address = options.metrics_address
        self._door = SideDoor(metrics, taken) if taken is not None else None
        log.info("metrics are served at", address=None if self._address is None else str(self._address))

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
