"""Load balancing policies: they choose the index of an upstream from weights, eligible upstreams and random numbers."""

import random
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import Protocol

from config.routes.route import Route
from config.routes.upstreams.load_balancing import ActiveRequestBias, LeastRequestSettings, MaglevSettings, RingHashSettings

_MAX_SCHEDULES = 256
Eligible = tuple[int, ...]  # ascending indexes, at least one


class Balancer(Protocol):
    def choose(self, eligible: Eligible, active: Sequence[int], key: bytes) -> int:
        """Return the index of an upstream.

        `active` counts the active requests of each upstream. `key` identifies the client for consistent hashing.
        """


class RoundRobin:
    """Smooth weighted round robin: in a cycle of as many requests as the total weight, each upstream gets its exact share, evenly spread.

    Each set of eligible upstreams has its own cycle, so that the requests of an unavailable upstream are spread evenly too.
    """

    def __init__(self, weights: Sequence[int]):
        self._weights = weights
        self._credits: dict[Eligible, list[float]] = {}

    def choose(self, eligible: Eligible, active: Sequence[int], key: bytes) -> int:
        return self.next_index(eligible, self._weights)

    def next_index(self, eligible: Eligible, weights: Sequence[float]) -> int:
        credit = self._credits.get(eligible)
        if credit is None:
            if len(self._credits) == _MAX_SCHEDULES:
                self._credits.clear()
            credit = self._credits[eligible] = [0.0] * len(self._weights)
        best, total = eligible[0], 0.0
        for index in eligible:
            credit[index] += weights[index]
            total += weights[index]
            if credit[index] > credit[best]:
                best = index
        credit[best] -= total
        return best


class LeastRequest:
    """Least request: the least busy of a random sample; with different weights, round robin that reduces the weight of busy upstreams."""

    def __init__(self, weights: Sequence[int], settings: LeastRequestSettings, rng: random.Random):
        self._weights = weights
        self._choices = settings.choice_count
        self._bias = _exponent(settings.active_request_bias)
        self._rng = rng
        self._robin = None if len(set(weights)) == 1 else RoundRobin(weights)

    def choose(self, eligible: Eligible, active: Sequence[int], key: bytes) -> int:
        if self._robin is not None:
            return self._robin.next_index(
                eligible, [weight / (1 + busy) ** self._bias for weight, busy in zip(self._weights, active, strict=True)]
            )
        drawn = self._rng.sample(eligible, min(self._choices, len(eligible)))
        return min(drawn, key=active.__getitem__)


class RandomChoice:
    """Random choice by weight."""

    def __init__(self, weights: Sequence[int], rng: random.Random):
        self._weights = weights
        self._rng = rng

    def choose(self, eligible: Eligible, active: Sequence[int], key: bytes) -> int:
        sums = list(accumulate(self._weights[index] for index in eligible))
        draw = self._rng.randrange(sums[-1]) + 1
        return eligible[bisect_left(sums, draw)]


class HashTable:
    """Consistent hashing: the same key selects the same upstream.

    The keys of an ineligible upstream move to others; no other key moves.
    """

    def __init__(self, owners: Sequence[int], positions: Sequence[int] | None, size: int):
        self._owners, self._positions, self._size = owners, positions, size

    def choose(self, eligible: Eligible, active: Sequence[int], key: bytes) -> int:
        point = hash64(key)
        position = point % len(self._owners) if self._positions is None else bisect_left(self._positions, point) % len(self._owners)
        if len(eligible) == self._size:
            return self._owners[position]
        allowed = frozenset(eligible)
        while self._owners[position] not in allowed:
            position = (position + 1) % len(self._owners)
        return self._owners[position]


def _exponent(settings: ActiveRequestBias) -> float:
    return float(settings.default_value)


def balancer(route: Route, names: tuple[str, ...], rng: random.Random) -> Balancer:
    """Return the balancer of a route's policy.

    Hash tables are built from `names`, which are unique, so the order of the upstreams does not matter.
    """
    weights = tuple(upstream.weight for upstream in route.to)
    match route.lb_policy:
        case "LEAST_REQUEST":
            return LeastRequest(weights, route.least_request_lb_config or LeastRequestSettings.model_validate({}), rng)
        case "RANDOM":
            return RandomChoice(weights, rng)
        case "RING_HASH":
            return _ring(names, weights, route.ring_hash_lb_config or RingHashSettings.model_validate({}))
        case "MAGLEV":
            return _maglev(names, weights, route.maglev_lb_config or MaglevSettings.model_validate({}))
        case _:
            return RoundRobin(weights)


def _ring(names: tuple[str, ...], weights: tuple[int, ...], settings: RingHashSettings) -> HashTable:
    return ring_hash(names, weights, settings.minimum_ring_size, settings.maximum_ring_size)


def _maglev(names: tuple[str, ...], weights: tuple[int, ...], settings: MaglevSettings) -> HashTable:
    return maglev(names, weights, settings.table_size)


@lru_cache(maxsize=64)  # many routes may have the same upstreams
def ring_hash(names: tuple[str, ...], weights: tuple[int, ...], min_size: int, max_size: int) -> HashTable:
    """Return a ring hash table.

    The lightest upstream gets a whole number of points, for shares that are as exact as the size allows. Each upstream gets at least one.
    """
    total, lightest = sum(weights), min(weights)
    min_points = -(-lightest * min_size // total)  # points of the lightest
    numerator, denominator = (min_points, lightest) if min_points * total <= max_size * lightest else (max_size, total)
    points = [
        (hash64(b"%d %s" % (number, name.encode())), index)
        for index, name in enumerate(names)
        for number in range(-(-weights[index] * numerator // denominator))
    ]
    points.sort(key=lambda point: (point[0], names[point[1]]))
    return HashTable(array("L", [index for _, index in points]), array("Q", [position for position, _ in points]), len(names))


@lru_cache(maxsize=64)
def maglev(names: tuple[str, ...], weights: tuple[int, ...], size: int) -> HashTable:
    """Return a Maglev table (Eisenbud et al., "A Fast and Reliable Software Network Load Balancer", 3.4).

    In each round, every upstream takes the next free entry of its permutation of the table; lighter upstreams skip rounds.
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    owners = array("l", [-1]) * size
    steps = {}
    for index in order:
        name = names[index].encode()
        steps[index] = (hash64(b"offset " + name) % size, hash64(b"skip " + name) % (size - 1) + 1)
    next_entry, heaviest, round_number, free = dict.fromkeys(order, 0), max(weights), 0, size
    target_weight = dict.fromkeys(order, 0)
    while free:
        round_number += 1
        for index in order:
            if round_number * weights[index] <= target_weight[index]:
                continue
            target_weight[index] += heaviest
            offset, skip = steps[index]
            while owners[position := (offset + next_entry[index] * skip) % size] >= 0:
                next_entry[index] += 1
            owners[position] = index
            free -= 1
            if not free:
                break
    return HashTable(owners, None, len(names))


def hash64(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
