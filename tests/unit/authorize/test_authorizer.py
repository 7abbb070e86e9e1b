"""The hosts that gate serves follow from the routes alone."""

import pytest

from authorize.service import AuthorizeService
from config.options import Options
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from tests.support.options import make_options
from tests.unit.authorize.builders import request


def authorizer(options: Options) -> AuthorizeService:
    return AuthorizeService(options, Replica(MemoryStore()), SigningKey.from_options(options))


@pytest.fixture
def hosts(tmp_path) -> AuthorizeService:
    policy = [{"from": "https://*.example.com", "to": "http://up", "allow_any_authenticated_user": True}]
    return authorizer(make_options(tmp_path, policy=policy))


@pytest.mark.parametrize(
    ("origin", "is_own"),
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
def test_route_origin(hosts, origin, is_own):
    assert hosts.is_route_origin(origin) is is_own


def test_the_host_of_tunnels_has_pages_where_browsers_reach_it_and_credentials_of_these_count(tmp_path):
    policy = [
        {"from": "tcp+https://db.example.com:5432", "to": "tcp://db.internal:5432"},
        {"from": "https://app.example.com:8443", "to": "http://up"},
    ]
    hosts = authorizer(make_options(tmp_path, policy=policy, authenticate_service_url="https://auth.example.com:444"))
    assert [hosts.serves_host("db.example.com", port) for port in (None, 444, 8443, 5432, 9000)] == [True, True, True, False, False]
    assert not hosts.serves_host("other.example.com", None)
    assert [hosts.is_route_origin(f"https://db.example.com{port}") for port in ("", ":444", ":5432")] == [True, True, False]
    assert hosts.audiences(request("/", "db.example.com:5432", "CONNECT")) == tuple(
        f"db.example.com{port}" for port in ("", ":444", ":8443")
    )
    assert hosts.audiences(request("/", "app.example.com:8443")) == ("app.example.com:8443",)
