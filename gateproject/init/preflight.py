"""Preflight notes for a first start: whether the ports are available, and whether the hosts resolve to this machine.

They are not errors, because gate may run on another machine.
"""

import socket
from collections.abc import Iterator

from config.options import Options
from config.settings.autocert_settings import served_hosts
from foundation.errors import ConfigError
from foundation.values import HostPort
from gateproject.status.local_config import configured_addresses
from gateproject.status.snapshot import Page, read
from proxy.listener.listeners import bind


def notes(options: Options, page: Page) -> Iterator[str]:
    """Yield what to fix before the start; `page` fetches a page of a running gate."""
    if has_running_gate(options, page):
        yield f"gate is already running here (metrics_address {options.metrics_address}). Show its state with `gate status`"
    else:
        for setting, address in configured_addresses(options):
            if trouble := _port_trouble(setting, address):
                yield f"{setting}: {trouble}"
    for host in dict.fromkeys(served_hosts(options)):
        if not host.startswith("*") and not _resolves(host):
            yield f"{host} does not resolve yet. Create a DNS record for it that points to gate"


def has_running_gate(options: Options, page: Page) -> bool:
    """Return whether a gate responds at this configuration's `metrics_address`."""
    return options.metrics_address is not None and not read(str(options.metrics_address), page).trouble


def _port_trouble(setting: str, address: HostPort) -> str:
    try:
        bind(address, setting).close()
    except ConfigError as error:
        return error.problems[0].message
    return ""


def _resolves(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):  # browsers resolve these themselves (RFC 6761 6.3)
        return True
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
