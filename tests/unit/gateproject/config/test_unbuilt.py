"""What is specified but not built is never silently ignored, and gets less."""

import pytest

from gateproject.config import load, unbuilt
from gateproject.config.options import Options
from tests.unit.gateproject.config.conftest import Problems

MESSAGE = "is specified but not available in this release"

# What the list held when it was closed.  Nothing may be added to it.
CLOSED_SETTINGS = {
    "authorize_service_url",
    "autocert",
    "autocert_dir",
    "autocert_must_staple",
    "autocert_use_staging",
    "cloud_serverless_authentication_service_account",
    "data_plane",
    "databroker_service_url",
    "databroker_storage_ca_file",
    "databroker_storage_cert_file",
    "databroker_storage_connection_string",
    "databroker_storage_key_file",
    "databroker_storage_tls_skip_verify",
    "dns_lookup_family",
    "enable_cloud_serverless_authentication",
    "grpc_address",
    "grpc_client_dns_roundrobin",
    "grpc_client_timeout",
    "grpc_insecure",
    "grpc_server_max_connection_age",
    "grpc_server_max_connection_age_grace",
    "http_redirect_addr",
    "idp_refresh_directory_interval",
    "idp_refresh_directory_timeout",
    "idp_service_account",
    "override_certificate_name",
    "programmatic_redirect_domain_whitelist",
    "refresh_cooldown",
    "session_staleness",
    "tracing_monitor_address",
    "tracing_provider",
    "tracing_sample_rate",
    "tracing_span_endpoint",
    "tracing_thrift_agent_endpoint",
    "tracing_thrift_collector_endpoint",
    "use_proxy_protocol",
}


def test_an_unbuilt_setting_is_refused_in_file_and_environment(problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the moment there are none, so one is made up."""
    monkeypatch.setattr(Options, "UNBUILT", ("not_yet",))
    monkeypatch.setattr(load, "ENVIRONMENT_KEYS", (*load.ENVIRONMENT_KEYS, "not_yet"))
    assert problems(not_yet="x") == {"not_yet": MESSAGE}
    assert problems({"NOT_YET": "x"}) == {"NOT_YET": f"{MESSAGE} (in the environment)"}


def test_what_is_built_is_not_in_the_list() -> None:
    assert not set(unbuilt.SETTINGS) & set(Options.attributes())


def test_the_list_only_shrinks() -> None:
    assert set(unbuilt.SETTINGS) <= CLOSED_SETTINGS
