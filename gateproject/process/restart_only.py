"""Restart-only settings: those keep their old value while the process runs, until the next start."""

import structlog

from config.options import Options

log = structlog.get_logger(__name__)

# What the process was built around: its address, its stores, its calls to other processes.  A change of these waits for a restart.
NEEDS_RESTART = (
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


def kept_until_restart(options: Options, running: Options) -> tuple[str, ...]:
    """Settings that keep their value of `running`, because that of `options` waits for a restart."""
    changed = tuple(key for key in NEEDS_RESTART if getattr(options, key) != getattr(running, key))
    # TLS that stays needs its certificates, which the new file may not have.
    return (*changed, *CERTIFICATES) if "insecure_server" in changed else changed


def without_restart_only_changes(options: Options, running: Options) -> Options:
    """Options with these settings as they are in `running`; says so where they differ."""
    kept = kept_until_restart(options, running)
    if not kept:
        return options
    log.warning("restart required", settings=[key for key in kept if key in NEEDS_RESTART])
    return options.model_copy(update={key: getattr(running, key) for key in kept})
