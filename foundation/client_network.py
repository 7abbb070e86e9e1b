"""Client networks, the unit of limits per client, and limits that use them: on concurrency, and on events in a period."""

from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network

from foundation.bounded_cache import MIB, BoundedCache, bounded_lru_cache
from foundation.values import parse_ip


@bounded_lru_cache(4096, max_key_length=64)  # clients choose their addresses
def client_network(address: str) -> str:
    """Return the network of an address: an IPv4 address itself, or the /64 of an IPv6 address.

    One client usually has a complete /64. Any other text is returned unchanged.
    """
    if (ip := parse_ip(address)) is None:
        return address
    return str(ip) if ip.version == 4 else str(ip_network((ip, 64), strict=False))


class ConcurrencyLimit:
    """Limit on concurrent operations in total and per network, so that one client cannot exhaust all slots.

    With several `processes`, each gets its share of both limits.
    """

    def __init__(self, total: int, per_network: int, processes: int = 1):
        self._total, self._per_network = max(1, total // processes), max(1, per_network // processes)
        self._acquired: Counter[str] = Counter()

    def acquire(self, network: str) -> bool:
        """Acquire a slot; return False if none is free. Each acquired slot must be released.

        An empty network counts against the total only.
        """
        if self._acquired.total() >= self._total or (network and self._acquired[network] >= self._per_network):
            return False
        self._acquired[network] += 1
        return True

    def release(self, network: str) -> None:
        self._acquired -= Counter((network,))


class RateLimit:
    """Limit on events per key, a network or a user, in the last `period` seconds of this process."""

    def __init__(self, maximum: int, period: float, clock: Callable[[], float]):
        self._maximum, self._period, self._clock = maximum, period, clock
        self._recent: BoundedCache[str, tuple[float, ...]] = BoundedCache(10_000, 8 * MIB)

    def allows(self, key: str) -> bool:
        return len(self._recorded(key)) < self._maximum

    def record(self, key: str) -> None:
        recorded = self._recorded(key)
        self._recent.put(key, (*recorded, self._clock()), len(key) + 32 * len(recorded) + 100)

    def acquire(self, key: str) -> bool:
        """Record an event if the limit allows it."""
        if not self.allows(key):
            return False
        self.record(key)
        return True

    def _recorded(self, key: str) -> tuple[float, ...]:
        now = self._clock()
        return tuple(each for each in self._recent.get(key) or () if each > now - self._period)
