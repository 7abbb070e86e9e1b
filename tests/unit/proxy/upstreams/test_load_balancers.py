import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.routes.route import Route
from config.routes.upstreams.load_balancing import LeastRequestSettings
from proxy.upstreams.load_balancers import LeastRequest, RandomChoice, RoundRobin, balancer, maglev, ring_hash

WEIGHTS = st.lists(st.integers(1, 40), min_size=1, max_size=8)
KEYS = [b"session-%d" % number for number in range(3000)]
IDLE = (0,) * 64


def names(count):
    return tuple(f"http://u{number}.internal:8000" for number in range(count))


def all_of(weights):
    return tuple(range(len(weights)))


@given(WEIGHTS, st.data())
def test_round_robin_gives_each_upstream_its_exact_share_of_every_cycle(weights, data):
    robin = RoundRobin(weights)
    for _ in range(3):
        eligible = tuple(sorted(data.draw(st.sets(st.sampled_from(all_of(weights)), min_size=1))))
        for _ in range(2):
            chosen = Counter(robin.choose(eligible, IDLE, b"") for _ in range(sum(weights[index] for index in eligible)))
            assert chosen == {index: weights[index] for index in eligible}


@given(WEIGHTS)
def test_round_robin_spreads_a_share_evenly(weights):
    """No upstream ever differs from its share by more than one request per other upstream."""
    robin, total, chosen = RoundRobin(weights), sum(weights), Counter()
    for number in range(1, 2 * total + 1):
        chosen[robin.choose(all_of(weights), IDLE, b"")] += 1
        for index, weight in enumerate(weights):
            assert abs(chosen[index] - number * weight / total) < max(len(weights), 2)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=10))
def test_selects_the_idlest_of_the_sample(active):
    policy = LeastRequest([1] * len(active), LeastRequestSettings(choice_count=len(active)), random.Random(1))
    assert active[policy.choose(all_of(active), active, b"")] == min(active)


@given(st.lists(st.integers(0, 100), min_size=3, max_size=10), st.integers())
def test_never_selects_the_busiest_of_two(active, seed):
    policy = LeastRequest([1] * len(active), LeastRequestSettings(), random.Random(seed))
    busiest = [index for index, busy in enumerate(active) if busy == max(active)]
    if len(busiest) == 1:
        assert policy.choose(all_of(active), active, b"") != busiest[0]


def test_weighted_policy_reduces_share_of_busy_upstreams():
    policy = LeastRequest([2, 1], LeastRequestSettings(), random.Random(1))
    assert Counter(policy.choose((0, 1), (0, 0), b"") for _ in range(30)) == {0: 20, 1: 10}
    assert Counter(policy.choose((0, 1), (3, 0), b"") for _ in range(30)) == {0: 10, 1: 20}  # 2 / (3 + 1) against 1
    unbiased = LeastRequest([2, 1], LeastRequestSettings.model_validate({"active_request_bias": {"default_value": 0}}), random.Random(1))
    assert Counter(unbiased.choose((0, 1), (3, 0), b"") for _ in range(30)) == {0: 20, 1: 10}


@given(WEIGHTS)
def test_random_choice_is_proportional_to_weights(weights):
    class Counting:
        def __init__(self):
            self.next = -1

        def randrange(self, end):
            self.next += 1
            return self.next % end

    policy = RandomChoice(weights, Counting())
    chosen = Counter(policy.choose(all_of(weights), IDLE, b"") for _ in range(sum(weights)))
    assert chosen == dict(enumerate(weights))


TABLES = {
    "ring hash": lambda names, weights: ring_hash(names, weights, 1024, 8 << 20),
    "maglev": lambda names, weights: maglev(names, weights, 1031),
}


@pytest.fixture(params=TABLES.values(), ids=TABLES)
def table(request):
    return request.param


@pytest.mark.parametrize("lost", range(5))
def test_only_keys_of_a_lost_upstream_move(table, lost):
    policy, rest = table(names(5), (1, 1, 2, 1, 3)), tuple(index for index in range(5) if index != lost)
    moved_to = Counter()
    for key in KEYS:
        before, after = policy.choose(all_of(range(5)), IDLE, key), policy.choose(rest, IDLE, key)
        if before == lost:
            moved_to[after] += 1
        else:
            assert after == before
    assert set(moved_to) == set(rest)


def test_same_table_maps_each_key_to_the_same_upstream(table):
    first, again = table(names(4), (1,) * 4), table(names(4), (1,) * 4)
    assert [first.choose((0, 1, 2, 3), IDLE, key) for key in KEYS] == [again.choose((0, 1, 2, 3), IDLE, key) for key in KEYS]


def test_order_of_upstreams_does_not_matter(table):
    one, turned = names(4), tuple(reversed(names(4)))
    first, second = table(one, (1, 2, 3, 4)), table(turned, (4, 3, 2, 1))
    for key in KEYS:
        assert one[first.choose((0, 1, 2, 3), IDLE, key)] == turned[second.choose((0, 1, 2, 3), IDLE, key)]


@settings(max_examples=20)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=12))
def test_maglev_entries_are_proportional_to_weights(weights):
    """Lighter upstreams skip rounds, so no share is off by more than a round or two."""
    owners = Counter(maglev(names(len(weights)), tuple(weights), 1031)._owners)
    for index, weight in enumerate(weights):
        assert abs(owners[index] - 1031 * weight / sum(weights)) <= len(weights) + 1


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12))
def test_ring_points_are_proportional_to_weights(weights):
    owners = Counter(ring_hash(names(len(weights)), tuple(weights), 512, 8 << 20)._owners)
    assert sum(owners.values()) >= 512
    for index, weight in enumerate(weights):
        assert owners[index] == -(-weight * owners[weights.index(min(weights))] // min(weights))


def test_ring_size_is_bounded_for_any_weights():
    assert len(ring_hash(names(2), (1, 4_000_000), 1024, 4096)._owners) <= 4097


def test_few_keys_move_to_an_added_upstream(table):
    """Keys move to the new upstream and, with Maglev, a few percent between the others, as in the paper."""
    before, after = table(names(9), (1,) * 9), table(names(10), (1,) * 10)
    moved = [key for key in KEYS if before.choose(all_of(range(9)), IDLE, key) != after.choose(all_of(range(10)), IDLE, key)]
    to_the_new_one = [key for key in moved if after.choose(all_of(range(10)), IDLE, key) == 9]
    assert len(KEYS) * 0.02 < len(to_the_new_one) < len(KEYS) * 0.25
    assert len(moved) - len(to_the_new_one) < len(KEYS) * 0.12


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({}, RoundRobin),
        ({"lb_policy": "LEAST_REQUEST", "least_request_lb_config": {"choice_count": 3}}, LeastRequest),
        ({"lb_policy": "RANDOM"}, RandomChoice),
        ({"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 64}}, "ring"),
        ({"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 101}}, "maglev"),
    ],
)
def test_policy_is_that_of_the_route(keys, kind):
    route = Route.model_validate({"from": "https://a.example.com", "to": ["http://u0.internal:8000", "http://u1.internal:8000"], **keys})
    created = balancer(route, names(2), random.Random(1))
    if kind == "ring":
        assert created is ring_hash(names(2), (1, 1), 64, 8 << 20)
    elif kind == "maglev":
        assert created is maglev(names(2), (1, 1), 101)
    else:
        assert type(created) is kind
