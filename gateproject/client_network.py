"""Whose is an address?  By what clients are told apart where each may have so much and no more."""

from functools import lru_cache
from ipaddress import ip_address, ip_network


@lru_cache(maxsize=4096)  # bounded, because clients choose their addresses
def client_network(address: str) -> str:
    """An IPv4 address itself; of an IPv6 address its /64, because who has that network has all of its addresses; any other text itself."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    return str(ip) if ip.version == 4 else str(ip_network((ip, 64), strict=False))
