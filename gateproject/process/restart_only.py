"""Restart-only settings, which keep their value until the next start."""

import structlog

from config.options import Options

log = structlog.get_logger(__name__)

# Settings that the process is built around: its address, its stores, its calls to other processes.
RESTART_ONLY = (
    *("services", "workers", "address"),
    *("data_plane", "envoy_max_connections", "envoy_max_heap"),
    *("insecure_server", "http_redirect_addr", "use_proxy_protocol"),
    "data_dir",
    *("database_url", "database_url_file"),
    "databroker_storage_type",
    *("databroker_storage_connection_string", "databroker_storage_connection_string_file"),
    "databroker_storage_ca_file",
    "databroker_storage_cert_file",
    "databroker_storage_key_file",
    "databroker_storage_tls_skip_verify",
    *("grpc_address", "grpc_insecure", "grpc_client_timeout", "grpc_client_dns_roundrobin"),
    "grpc_server_max_connection_age",
    "grpc_server_max_connection_age_grace",
    "override_certificate_name",
    "databroker_service_url",
    "authorize_service_url",
)


CERTIFICATES = ("certificate", "certificate_key", "certificate_file", "certificate_key_file", "certificates", "autocert")


def restart_required(options: Options, running: Options) -> tuple[str, ...]:
    """Return the settings that keep their value of `running` until a restart."""
    changed = tuple(key for key in RESTART_ONLY if getattr(options, key) != getattr(running, key))
    # If TLS stays enabled it needs its certificates, which the new file may lack.
    return (*changed, *CERTIFICATES) if "insecure_server" in changed else changed


def keep_restart_only_values(options: Options, running: Options) -> Options:
    """Return the options with these settings as in `running`; log those that differ."""
    unchanged = restart_required(options, running)
    if not unchanged:
        return options
    log.warning("restart required", settings=[key for key in unchanged if key in RESTART_ONLY])
    return options.model_copy(update={key: getattr(running, key) for key in unchanged})
