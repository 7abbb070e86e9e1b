"""Topics: the headings of the settings and route keys in the reference."""

from collections.abc import Mapping

# Each setting has one topic, whichever module declares it. The reference keeps this order.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "Listeners and timeouts": (
        *("address", "insecure_server", "http_redirect_addr", "use_proxy_protocol", "trusted_proxies", "http3", "services", "workers"),
        *("timeout_read", "timeout_write", "timeout_idle", "shutdown_delay"),
    ),
    "TLS certificates": (
        *("certificate_file", "certificate_key_file", "certificate", "certificate_key", "certificates", "tls_min_version"),
        *("client_ca_file", "client_ca", "certificate_authority_file", "certificate_authority"),
    ),
    "ACME": (
        *("autocert", "autocert_dir", "autocert_email", "autocert_use_staging", "autocert_must_staple", "autocert_ca"),
        *("autocert_trusted_ca_file", "autocert_trusted_ca", "autocert_eab_key_id", "autocert_eab_mac_key_file", "autocert_eab_mac_key"),
    ),
    "Identity provider": (
        *("authenticate_service_url", "authenticate_callback_path", "idp_provider", "idp_provider_url", "idp_client_id"),
        *("idp_client_secret_file", "idp_client_secret", "idp_scopes", "idp_request_params", "identity_providers"),
    ),
    "Groups and directory": (
        *("groups_claim", "directory_file", "idp_service_account_file", "idp_service_account", "idp_directory_url"),
        *("idp_refresh_directory_interval", "idp_refresh_directory_timeout", "idp_qps"),
        *("scim_token_file", "scim_token", "scim_user_id", "scim_group_id"),
    ),
    "Cookies and sessions": (
        *("cookie_secret_file", "cookie_secret", "cookie_expire", "cookie_name", "cookie_domain", "cookie_secure", "cookie_http_only"),
        *("refresh_cooldown", "signout_redirect_url"),
    ),
    "Routes and forwarding": (
        *("policy", "policy_tests", "policy_tests_file", "default_upstream_timeout", "headers", "skip_xff_append", "dns_lookup_family"),
        "health_paths_on_routes",
        *("enable_cloud_serverless_authentication", "cloud_serverless_authentication_service_account_file"),
        *("cloud_serverless_authentication_service_account", "cloud_serverless_metadata_url"),
    ),
    "Data plane": ("data_plane", "envoy_max_connections", "envoy_max_heap"),
    "Identity headers": ("signing_key_file", "signing_key", "signing_key_algorithm", "jwt_claims_headers", "jwt_groups_filter"),
    "Forward auth and ext_authz": ("forward_auth_url", "forward_auth_cache", "ext_authz_tokens_file", "ext_authz_tokens"),
    "Programmatic access": ("programmatic_redirect_domain_whitelist",),
    "Agents": (
        "oauth_clients",
        "oauth_dynamic_registration",
        "command_line_device_authorization",
        "mcp_client_domains",
        "agent_session_expire",
    ),
    "Access requests": ("access_webhook_url_file", "access_webhook_url", "access_webhook_secret_file", "access_webhook_secret"),
    "Admin and decision log": (
        *("admin_allowed_users", "admin_allowed_groups", "admin_password_login"),
        *("decision_log_size", "decision_log_age", "decision_log_sample_rate"),
    ),
    "Pages and branding": ("brand", "support_contact", "time_zone"),
    "Logs and metrics": ("log_level", "proxy_log_level", "gate_debug", "metrics_address", "metrics_per_route"),
    "Tracing": (
        *("tracing_provider", "tracing_sample_rate", "tracing_span_endpoint", "tracing_thrift_collector_endpoint"),
        *("tracing_thrift_agent_endpoint", "tracing_monitor_address"),
    ),
    "Storage and secrets": (
        *(
            "shared_secret_file",
            "shared_secret",
            "data_dir",
            "database_url_file",
            "database_url",
            "databroker_storage_type",
            "databroker_storage_connection_string_file",
            "databroker_storage_connection_string",
        ),
        *("databroker_storage_ca_file", "databroker_storage_cert_file", "databroker_storage_key_file"),
        *("databroker_storage_tls_skip_verify", "session_staleness"),
    ),
    "Split services and gRPC": (
        *("databroker_service_url", "authorize_service_url", "grpc_address", "grpc_insecure", "grpc_client_timeout"),
        *("grpc_client_dns_roundrobin", "grpc_server_max_connection_age", "grpc_server_max_connection_age_grace"),
        "override_certificate_name",
    ),
}

ROUTE_KEYS: Mapping[str, tuple[str, ...]] = {
    "Match and target": ("from", "to", "path", "prefix", "regex", "redirect"),
    "Access": (
        *("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims", "allow_any_authenticated_user"),
        *("allow_public_unauthenticated_access", "cors_allow_preflight", "policy", "mode", "access_requests", "acr_values", "max_age"),
        *("identity_providers", "tls_downstream_client_ca_file", "tls_downstream_client_ca"),
    ),
    "Bearer tokens and provider tokens": (
        *("bearer_token", "bearer_token_issuer", "bearer_token_audience", "bearer_token_jwks_url", "bearer_token_jwks_file"),
        *("pass_provider_tokens", "pass_provider_tokens_unencrypted"),
    ),
    "Identity sent to the upstream": (
        *("pass_identity_headers", "identity_headers", "assertion_header", "assertion_audience", "jwt_groups_filter"),
    ),
    "Request and response headers": (
        *("set_request_headers", "remove_request_headers", "set_response_headers", "remove_response_headers"),
    ),
    "Path and host rewrites": (
        *("prefix_rewrite", "regex_rewrite_pattern", "regex_rewrite_substitution", "preserve_host_header", "host_rewrite"),
        *("host_rewrite_header", "host_path_regex_rewrite_pattern", "host_path_regex_rewrite_substitution"),
    ),
    "Timeouts and upgrades": ("timeout", "idle_timeout", "allow_websockets", "websocket_origins", "allow_spdy"),
    "MCP servers": ("mcp",),
    "Upstream authentication": (
        *("basic_auth", "cluster_service_account_token_file", "cluster_service_account_token", "enable_cloud_serverless_authentication"),
    ),
    "Upstream protocol and TLS": (
        *("upstream_http2", "tls_server_name", "tls_custom_ca_file", "tls_custom_ca", "tls_skip_verify"),
        *("tls_client_cert_file", "tls_client_cert", "tls_client_key_file", "tls_client_key"),
    ),
    "Load balancing and health checks": (
        *("lb_policy", "least_request_lb_config", "ring_hash_lb_config", "maglev_lb_config", "health_checks", "outlier_detection"),
    ),
    "Name and portal": ("name", "title", "description", "icon", "category", "portal", "refusal_message"),
}
