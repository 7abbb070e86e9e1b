"""Facts of the local configuration that a running gate does not report: listeners, and certificate expiry."""

import socket
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from cryptography import x509

from config.fields.pem import dns_names
from config.options import Options
from foundation.values import HostPort

_PATIENCE = 1.0  # seconds


class Listener(NamedTuple):
    setting: str
    address: str
    is_open: bool


class ConfiguredCertificate(NamedTuple):
    name: str
    ends: datetime


def listeners(options: Options) -> Iterator[Listener]:
    """Yield the configured addresses, and whether a process accepts connections there on this machine."""
    for setting, address in configured_addresses(options):
        yield Listener(setting, str(address), _is_open(address))


def configured_addresses(options: Options) -> Iterator[tuple[str, HostPort]]:
    """Yield the settings that name a listening address, with the address."""
    for setting in ("address", "http_redirect_addr", "grpc_address", "metrics_address"):
        address: HostPort | None = getattr(options, setting)
        if address is not None:
            yield setting, address


def certificates(options: Options) -> list[ConfiguredCertificate]:
    """Return the configured certificates, the earliest expiry first."""
    leaves = [x509.load_pem_x509_certificates(pair.certificate)[0] for pair in options.certificate_pairs]
    found = [ConfiguredCertificate(next(iter(dns_names(leaf)), "?"), leaf.not_valid_after_utc) for leaf in leaves]
    return sorted(found, key=lambda each: each.ends)


def _is_open(address: HostPort) -> bool:
    host = "localhost" if address.host in ("", "0.0.0.0", "::") else address.host  # noqa: S104 - compared, not bound
    try:
        socket.create_connection((host, address.port), _PATIENCE).close()
    except OSError:
        return False
    return True
