"""Which hosts are ours follows from the routes alone."""

import pytest

from authorize.hosts import Hosts
from tests.support.options import make_options


@pytest.fixture
def hosts(tmp_path) -> Hosts:
    policy = [{"from": "https://*.example.com", "to": "http://up", "allow_any_authenticated_user": True}]
    return Hosts(make_options(tmp_path, policy=policy))


@pytest.mark.parametrize(
    ("origin", "is_ours"),
    [
        ("https://a.example.com", True),
        ("https://a.example.com:443", True),
        ("http://a.example.com", False),
        ("https://a.b.example.com", False),
        ("https://a.example.com.evil.com", False),
        ("a.example.com", False),
        ("https://", False),
        ("https://é.example.com", False),
        ("null", False),
    ],
)
def test_an_origin_is_ours_where_a_route_serves_it(hosts, origin, is_ours):
    assert hosts.is_route_origin(origin) is is_ours
