"""Client networks: by what clients are told apart where each may have so much and no more."""

from collections import Counter
from ipaddress import ip_network

from foundation.bounded_cache import bounded_lru_cache
from foundation.values import parse_ip


@bounded_lru_cache(4096, max_key_length=64)  # clients choose their addresses
def client_network(address: str) -> str:
    """The network of an address: an IPv4 address itself; of an IPv6 address its /64, because who has that network has all of its
    addresses; any other text itself.
    """
    if (ip := parse_ip(address)) is None:
        return address
    return str(ip) if ip.version == 4 else str(ip_network((ip, 64), strict=False))


class ConcurrencyLimit:
    """A limit on how many at a time, and fewer of one network, so that nobody alone takes the slots of all others.

    Of several processes that serve the same people (`among`) each has its share: together they let in no more.
    """

    def __init__(self, total: int, per_network: int, processes: int = 1):
        self._of_all, self._of_one = max(1, total // processes), max(1, per_network // processes)
        self._taken: Counter[str] = Counter()

    def acquire(self, network: str) -> bool:
        """Take a slot, False where there is none; else somebody must `leave` it.  "" is nobody in particular, whom only the number of
        all bounds.
        """
        if self._taken.total() >= self._of_all or (network and self._taken[network] >= self._of_one):
            return False
        self._taken[network] += 1
        return True

    def release(self, network: str) -> None:
        self._taken -= Counter((network,))
