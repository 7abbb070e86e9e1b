"""Listener at `metrics_address`. Its port is bound before a reload changes anything, so that a failure has no effect."""

import socket

import structlog

from config.options import Options
from foundation.errors import ConfigError
from foundation.telemetry.monitoring_app import MonitoringApp
from foundation.values import HostPort
from proxy.listener.listeners import PlainHttpListener, bind

log = structlog.get_logger(__name__)

SETTING = "metrics_address"


class MetricsListener:
    def __init__(self, pages: MonitoringApp) -> None:
        self._pages = pages
        self.is_on = True  # False under a third-party server
        self._served: tuple[HostPort, PlainHttpListener] | None = None

    @property
    def _address(self) -> HostPort | None:
        return None if self._served is None else self._served[0]

    def bind(self, options: Options) -> socket.socket | None:
        """Bind the port of a changed address; return None if it is unchanged. Raise ConfigError if it is unavailable."""
        address = options.metrics_address
        return bind(address, SETTING) if self.is_on and address is not None and address != self._address else None

    async def rebind(self, options: Options) -> socket.socket | None:
        """Bind as `take`; if only the host differs, close the own listener first, because it occupies the port."""
        try:
            return self.bind(options)
        except ConfigError:
            served, address = self._served, options.metrics_address
            if served is None or address is None or served[0].port != address.port:
                raise
            return await self._replace_listener(*served, address)

    async def _replace_listener(self, before: HostPort, door: PlainHttpListener, address: HostPort) -> socket.socket:
        self._served, closed = None, door.close()
        await closed
        try:
            return bind(address, SETTING)
        except ConfigError:
            self._served = before, PlainHttpListener(self._pages, bind(before, SETTING))
            raise

    def serve(self, options: Options, bound: socket.socket | None) -> None:
        """Serve on the socket that `take` bound for these options."""
        if options.metrics_address == self._address or not self.is_on:
            return
        self.close()
        address = options.metrics_address
        self._served = None if address is None or bound is None else (address, PlainHttpListener(self._pages, bound))
        log.info("metrics listener started", address=None if address is None else str(address))

    def close(self) -> None:
        if self._served is not None:
            self._served[1].close()
