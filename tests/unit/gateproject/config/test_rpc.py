"""Where gRPC is served and reached, by mode."""

from datetime import timedelta

import pytest

from gateproject.config.types import HostPort, Url
from gateproject.errors import ConfigError
from tests.support.options import make_options


def test_one_process_serves_grpc_on_loopback_without_tls(tmp_path):
    options = make_options(tmp_path, grpc_address=None)
    assert options.grpc_address == HostPort("127.0.0.1", 5443)
    assert options.grpc_insecure
    assert options.grpc_client_timeout == timedelta(seconds=10)
    assert options.grpc_client_dns_roundrobin
    assert options.grpc_server_max_connection_age == options.grpc_server_max_connection_age_grace == timedelta(minutes=5)
    assert options.databroker_service_url is None


def test_an_empty_address_switches_it_off(tmp_path):
    assert make_options(tmp_path, grpc_address="").grpc_address is None


def test_an_address_and_tls_can_be_chosen(tmp_path):
    options = make_options(tmp_path, grpc_address="[::1]:6000", grpc_insecure=False)
    assert options.grpc_address == HostPort("::1", 6000)
    assert not options.grpc_insecure


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("grpc_address", "localhost"),
        ("grpc_insecure", "maybe"),
        ("grpc_client_timeout", "0"),
        ("grpc_server_max_connection_age", "0s"),
        ("override_certificate_name", "a b"),
        ("databroker_service_url", "https://broker.example.com/path"),
        ("databroker_service_url", "kvstore://broker"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(tmp_path, setting, value):
    with pytest.raises(ConfigError) as error:
        make_options(tmp_path, **{setting: value})
    assert [problem.key for problem in error.value.problems] == [setting]


def test_a_service_is_named_by_host_and_port(tmp_path):
    options = make_options(tmp_path, databroker_service_url="https://broker.example.com:5443/")
    assert options.databroker_service_url == Url("https", "broker.example.com", 5443)
