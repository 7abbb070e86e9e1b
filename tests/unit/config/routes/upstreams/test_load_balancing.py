import pytest

SEVERAL = ["http://a.internal:8000", "http://b.internal:8000"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"lb_policy": "LEAST_REQUEST", "least_request_lb_config": {"choice_count": 3}}, {}),
        ({"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 64, "maximum_ring_size": 64}}, {}),
        ({"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 101}}, {}),
        ({"lb_policy": "MAGLEV"}, {}),
        ({"lb_policy": "round_robin"}, {"lb_policy": "must be one of"}),
        ({"least_request_lb_config": {"choice_count": 3}}, {"least_request_lb_config": "lb_policy: LEAST_REQUEST"}),
        (
            {"lb_policy": "LEAST_REQUEST", "least_request_lb_config": {"choice_count": 1}},
            {"least_request_lb_config.choice_count": "from 2"},
        ),
        ({"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 100}}, {"maglev_lb_config.table_size": "prime"}),
        ({"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 9999991 + 92}}, {"maglev_lb_config.table_size": "whole number from 3"}),
        (
            {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 65, "maximum_ring_size": 64}},
            {"ring_hash_lb_config.minimum_ring_size": "is more than maximum_ring_size"},
        ),
        ({"lb_policy": "RING_HASH", "ring_hash_lb_config": {"size": 65}}, {"ring_hash_lb_config.size": "unknown setting (gate v"}),
    ],
)
def test_settings_of_a_policy(route_problems, keys, expected):
    found = route_problems(to=SEVERAL, **keys)
    assert found.keys() == expected.keys()
    for key, part in expected.items():
        assert part in found[key]


def test_a_table_has_room_for_every_upstream(route_problems):
    found = route_problems(to=[f"http://u{number}.internal" for number in range(4)], lb_policy="MAGLEV", maglev_lb_config={"table_size": 3})
    assert list(found) == ["maglev_lb_config"]
    assert "as many entries" in found["maglev_lb_config"]
