"""Client address: which peers' X-Forwarded-For is believed (`trusted_proxies`), and whose address a request is thereby from."""

import ipaddress
import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache, partial

from foundation.bounded_cache import bounded_lru_cache
from foundation.telemetry.logs import BoundedLog
from foundation.values import parse_ip
from proxy.incoming_request import IncomingRequest

_MAX_CACHED_LENGTH = 64  # characters of what may be an address; clients choose it

MALFORMED = BoundedLog("malformed forwarding header")

_WITH_PORT = re.compile(r"([0-9.]+):[0-9]{1,5}|\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?")


class TrustedPeers:
    """Networks of trusted peers, whose forwarding headers are believed."""

    def __init__(self, networks: Iterable[object]):
        self._networks = tuple(ipaddress.ip_network(str(network)) for network in networks)
        # (Of no method: what a reload lets go must not refer to itself, process/gc_tuning.py.)
        self._is_inside = bounded_lru_cache(4096, max_key_length=_MAX_CACHED_LENGTH)(partial(_is_inside, self._networks))

    def __contains__(self, address: object) -> bool:
        return bool(self._networks) and self._is_inside(str(address))


def _is_inside(networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...], address: str) -> bool:
    peer = parse_ip(address)
    if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped:
        peer = peer.ipv4_mapped
    return peer is not None and any(peer in network for network in networks)


@lru_cache(maxsize=4)
def trusted_peers(networks: tuple[object, ...]) -> TrustedPeers:
    """Trusted peers of a configuration (`trusted_proxies`), of which ten thousand routes need no more than one."""
    return TrustedPeers(networks)


def forwarded_hops(value: str) -> list[str]:
    """Addresses of X-Forwarded-For, without the port that some proxies write (`ip:port`, `[v6]`, `[v6]:port`); the rest as it came."""
    hops = [hop.strip() for hop in value.split(",")]
    return [match[1] or match[2] if (match := _WITH_PORT.fullmatch(hop)) else hop for hop in hops]


def last_untrusted(peer: str, hops: Sequence[str], trusted: Container[str]) -> str:
    """The last address that is not itself a trusted proxy's; what is no address ends the search at the hop after it."""
    address, remaining = peer, list(hops)
    while remaining and address in trusted:
        hop = remaining.pop()
        if parse_ip(hop) is None:
            break
        address = hop
    return address


# enforcement-point: Requests: Client IP and trusted proxies
def client_address(incoming: IncomingRequest, trusted: Container[str]) -> str:
    """Client address, for logs and sessions: the peer, or the last address in X-Forwarded-For that is not itself a trusted proxy's."""
    peer = incoming.peer
    return last_untrusted(peer, _received_hops(incoming), trusted) if peer in trusted else peer


def _received_hops(incoming: IncomingRequest) -> list[str]:
    lines = [value.decode("latin-1") for name, value in incoming.scope["headers"] if name == b"x-forwarded-for"]
    return forwarded_hops(",".join(lines)) if any(lines) else []


def source_ip(incoming: IncomingRequest, trusted: Container[str]) -> str:
    """Source address, for rules to compare: as `client_address`, but "" where the trusted proxies leave it in doubt.

    Every X-Forwarded-For line counts, the last first; a trusted peer that names nobody, or what is no address, says nothing.
    """
    peer = incoming.peer
    if peer not in trusted:
        return peer
    hops = _received_hops(incoming)
    for hop in reversed(hops):
        if parse_ip(hop) is None:
            MALFORMED.emit(header="X-Forwarded-For", peer=peer, entry=hop[:_MAX_CACHED_LENGTH])
            return ""
        if hop not in trusted:
            return hop
    return hops[0] if hops else ""
