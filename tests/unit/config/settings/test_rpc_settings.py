"""Addresses where gRPC is served and reached, by mode."""

import pytest

from foundation.errors import ConfigError
from foundation.values import HostPort, Url
from tests.support.options import make_options


def test_one_process_serves_grpc_on_loopback_without_tls(tmp_path):
    options = make_options(tmp_path, grpc_address=None)
    assert options.grpc_address == HostPort("127.0.0.1", 5443)
    assert options.grpc_insecure
    assert options.databroker_service_url is None


def test_an_empty_address_switches_it_off(tmp_path):
    assert make_options(tmp_path, grpc_address="").grpc_address is None


def test_an_address_and_tls_can_be_chosen(tmp_path):
    options = make_options(tmp_path, grpc_address="[::1]:6000", grpc_insecure=False)
    assert options.grpc_address == HostPort("::1", 6000)
    assert not options.grpc_insecure


def test_a_service_is_named_by_host_and_port(tmp_path):
    options = make_options(tmp_path, databroker_service_url="https://broker.example.com:5443/")
    assert options.databroker_service_url == Url("https", "broker.example.com", 5443)


BROKER = {"databroker_service_url": "https://broker:5443"}
AUTHORIZE = {"authorize_service_url": "https://authorize:5443"}


@pytest.mark.parametrize(
    ("settings", "invalid"),
    [
        ({"services": "proxy", **BROKER, **AUTHORIZE}, []),
        ({"services": "proxy", **BROKER}, ["authorize_service_url"]),
        ({"services": "proxy", **AUTHORIZE}, ["databroker_service_url"]),
        ({"services": "authenticate", **BROKER}, []),
        ({"services": "authenticate"}, ["databroker_service_url"]),
        ({"services": "authorize", "grpc_insecure": True, "grpc_address": None, **BROKER}, []),
        ({"services": "authorize", "grpc_insecure": True, "grpc_address": ":1"}, ["databroker_service_url"]),
        ({"services": "authorize", "grpc_address": ":1", **BROKER}, ["certificate"]),
        ({"services": "databroker", "grpc_insecure": True, "grpc_address": ":1"}, []),
        ({"services": "databroker", "grpc_insecure": True, "grpc_address": ":1", **BROKER}, ["databroker_service_url"]),
        ({"services": "databroker", "grpc_insecure": True, "grpc_address": ""}, ["grpc_address"]),
        ({"services": "all", **AUTHORIZE}, ["authorize_service_url"]),
        ({"services": "cache"}, ["services"]),
    ],
    ids=str,
)
def test_each_service_requires_addresses_of_the_others(tmp_path, settings, invalid):
    found = []
    try:
        make_options(tmp_path, **settings)
    except ConfigError as error:
        found = [problem.key for problem in error.problems]
    assert found == invalid


def test_only_services_signing_users_in_need_provider_secret(tmp_path):
    without = {"idp_client_id": None, "idp_client_secret": None}
    proxy = make_options(tmp_path, services="proxy", **BROKER, **AUTHORIZE, **without)
    assert proxy.grpc_address is None
    with pytest.raises(ConfigError):
        make_options(tmp_path, services="authenticate", **BROKER, **without)
    nothing = {"cookie_secret": None, "idp_provider": None, "idp_provider_url": None, "authenticate_service_url": None}
    broker = make_options(tmp_path, services="databroker", grpc_insecure=True, grpc_address=None, **without, **nothing)
    assert broker.grpc_address == HostPort("", 443)
