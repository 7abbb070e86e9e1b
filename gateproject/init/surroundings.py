"""Surroundings of a first start: whether the ports can be had, and whether the hosts lead here.  Notes, and no errors: gate may be meant
to run elsewhere."""

import errno
import socket
from collections.abc import Iterator

from config.options import Options
from config.settings.autocert import served_hosts
from foundation.errors import ConfigError
from foundation.values import HostPort
from proxy.listener.listen import bind


def notes(options: Options) -> Iterator[str]:
    """Sentences about what a person should see to before the start."""
    for setting, address in (("address", options.address), ("http_redirect_addr", options.http_redirect_addr)):
        if address is not None and (trouble := _port_trouble(setting, address)):
            yield f"{setting}: {trouble}"
    for host in dict.fromkeys(served_hosts(options)):
        if not host.startswith("*") and not _resolves(host):
            yield f"{host} has no address here yet: make a DNS record for it that leads to gate"


def _port_trouble(setting: str, address: HostPort) -> str:
    try:
        bind(address, setting).close()
    except ConfigError as error:
        cause = error.__cause__
        number = cause.errno if isinstance(cause, OSError) else 0
        if number in (errno.EACCES, errno.EPERM):
            return (
                f"port {address.port} needs a privilege: the units of deploy/systemd and containers give it; so does "
                f"`sysctl net.ipv4.ip_unprivileged_port_start={address.port}`"
            )
        if number == errno.EADDRINUSE:
            return f"port {address.port} is taken by another program (`ss -ltnp 'sport = :{address.port}'` names it)"
        return error.problems[0].message
    return ""


def _resolves(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):  # browsers know these by themselves (RFC 6761 6.3)
        return True
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
