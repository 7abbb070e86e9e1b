"""Client address: the address of the peer, or of X-Forwarded-For if the peer is in `trusted_proxies`."""

import ipaddress
import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache, partial

from foundation.bounded_cache import bounded_lru_cache
from foundation.telemetry.logs import BoundedLog
from foundation.values import parse_ip
from proxy.incoming_request import IncomingRequest

_MAX_CACHED_LENGTH = 64  # characters, because clients choose the value

MALFORMED = BoundedLog("malformed forwarding header")

_WITH_PORT = re.compile(r"([0-9.]+):[0-9]{1,5}|\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?")


class TrustedPeers:
    """Networks of trusted peers.  gate accepts forwarding headers from these alone."""

    def __init__(self, networks: Iterable[object]):
        self._networks = tuple(ipaddress.ip_network(str(network)) for network in networks)
        # A partial of a function, not of a method, because configurations must not contain reference cycles (process/gc_tuning.py).
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
    """Return the trusted peers for `trusted_proxies`, cached because all routes of a configuration share them."""
    return TrustedPeers(networks)


def forwarded_hops(value: str) -> list[str]:
    """Return the entries of X-Forwarded-For, without ports and brackets (`ip:port`, `[v6]`, `[v6]:port`); others are unchanged."""
    hops = [hop.strip() for hop in value.split(",")]
    return [match[1] or match[2] if (match := _WITH_PORT.fullmatch(hop)) else hop for hop in hops]


def last_untrusted(peer: str, hops: Sequence[str], trusted: Container[str]) -> str:
    """Return the last address that is not a trusted proxy's.  An entry that is no address ends the search at the hop after it."""
    address, remaining = peer, list(hops)
    while remaining and address in trusted:
        hop = remaining.pop()
        if parse_ip(hop) is None:
            break
        address = hop
    return address


# enforcement-point: Requests: Client IP and trusted proxies
def client_address(incoming: IncomingRequest, trusted: Container[str]) -> str:
    """Return the client address for logs and sessions: the peer, or the last address in X-Forwarded-For that is not a trusted proxy's."""
    peer = incoming.peer
    return last_untrusted(peer, _received_hops(incoming), trusted) if peer in trusted else peer


def _received_hops(incoming: IncomingRequest) -> list[str]:
    lines = [value.decode("latin-1") for name, value in incoming.scope["headers"] if name == b"x-forwarded-for"]
    return forwarded_hops(",".join(lines)) if any(lines) else []


def source_ip(incoming: IncomingRequest, trusted: Container[str]) -> str:
    """Return the source address for policy rules: as `client_address`, but "" if the trusted proxies leave it in doubt.

    All X-Forwarded-For lines count, the last one first.  The address is in doubt if a trusted peer sends none, or a malformed entry.
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
