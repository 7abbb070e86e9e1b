"""Client networks, and limits per network."""

import pytest

from foundation.client_network import ConcurrencyLimit, RateLimit, client_network
from tests.support.clock import Clock


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_an_ipv6_network_is_one_client_s(address: str, network: str) -> None:
    assert client_network(address) == network


def test_one_client_cannot_occupy_all_slots() -> None:
    places = ConcurrencyLimit(3, 2)
    assert [places.acquire("a") for _ in range(3)] == [True, True, False]
    assert places.acquire("b")
    assert not places.acquire("c"), "there are three"
    places.release("a")
    assert places.acquire("c")
    assert not places.acquire("a")
    for name in ("a", "b", "c"):
        places.release(name)
    assert [places.acquire("a") for _ in range(3)] == [True, True, False]


def test_unidentified_clients_share_only_the_total_limit() -> None:
    places = ConcurrencyLimit(3, 2)
    assert [places.acquire("") for _ in range(4)] == [True, True, True, False]


def test_several_processes_together_let_in_no_more() -> None:
    each = [ConcurrencyLimit(4, 2, 2) for _ in range(2)]
    assert [limit.acquire("a") for limit in each for _ in range(2)] == [True, False, True, False]
    assert [limit.acquire("b") for limit in each for _ in range(2)] == [True, False, True, False]
    assert [limit.acquire("c") for limit in each] == [False, False]
    assert ConcurrencyLimit(4, 2, 64).acquire("a"), "each has a place"


def test_rate_of_each_key(clock: Clock) -> None:
    limit = RateLimit(2, 60.0, clock)
    assert [limit.acquire("a") for _ in range(3)] == [True, True, False]
    assert limit.acquire("b")
    clock.now += 59
    assert not limit.acquire("a"), "a refused event prolongs nothing"
    clock.now += 1
    assert [limit.acquire("a") for _ in range(3)] == [True, True, False]


def test_what_is_only_checked_does_not_count(clock: Clock) -> None:
    limit = RateLimit(1, 60.0, clock)
    assert [limit.allows("a") for _ in range(3)] == [True, True, True]
    limit.record("a")
    assert not limit.allows("a")
