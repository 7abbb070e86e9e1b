"""The modules with guards, by package, and the tests that must notice when one of their guards is missing."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

GUARDS = {
    "authenticate": "admin audit_writer background_work bearer_token_verification browser_redirects jwks_publisher post_logout_redirect "
    "provider_selection redirect_targets removed_directories removed_providers replay_guard service step_up",
    "authenticate.access_requests": "access_request_service access_webhook",
    "authenticate.api": "api_authenticator access_requests_api api_call connections_api cursors request_parsing service_accounts_api sessions_api",
    "authenticate.directory": "file_source provider_directory sync_run sync",
    "authenticate.directory.vendors": "directory_api auth0_directory azure_directory snapshot_builder gitlab_directory okta_directory vendor",
    "authenticate.oauth": "account_tokens authorization_server client_assertions client_documents client_registry consents device_authorizations device_grant "
    "dynamic_registration oauth_client token_service",
    "authenticate.portal": "preferences programmatic_clients",
    "authenticate.provider": "address_scope claim_limits client_refusals client_registry discovery django_oidc email_verification "
    "issuer par provider_client provider_http single_flight_cache strict_json",
    "authenticate.provider.kinds": "azure_provider generic_provider github_provider oidc_provider",
    "authenticate.provider.tokens": "id_token key_set logout_token signed_token token_response",
    "authenticate.scim": "scim_authenticator directory_writer attribute_paths audit_text scim_directory scim_filter index patch resources",
    "authenticate.session": "linked_account_index other_session_refresh provider_initiated_logout refresh_grant refresh_requests "
    "refresh_worker session_index session_refresh session_service",
    "authenticate.upstream_oauth": "connection_refresh connection_service server_discovery token_client",
    "authenticate.views": "view_helpers api_endpoint authorization_request callback actors portal_pages programmatic_consent provider_logout_endpoints profile_refresh scim_endpoint sessions_page sign_in "
    "sign_out",
    "authenticate.views.oauth": "account_connection agent_callback agent_sign_in authorize connection_admin device_page oauth_responses registration_endpoint token_endpoint",
    "authorize": "accessible_routes admin approval_policy authorizer config_checks ext_authz_types protected_resources service user_entry_checks",
    "authorize.decision_log": "decision_log decision_snapshot persistence",
    "authorize.explain": "recorded_user replay",
    "authorize.identity": "account_token_loader agent_token_loader client_certificates identity_builder identity_loader request_credentials service_account_loader",
    "authorize.policy": "compiled_route criterion decision identity policy_request route_table truth unreachable_routes user_entry",
    "authorize.policy.language": "expression_compiler grant_criteria identity_criteria request_criteria route_key_criteria time_criteria",
    "authorize.policy.paths": "canonical interpretations",
    "authorize.rpc": "check_attributes ext_authz remote_authorizer",
    "authorize.timeline": "timeline_filters timeline_pages",
    "authorize.upstream": "account_connections cloud_serverless identity_header_templates identity_headers provider_token_headers "
    "upstream_credentials upstream_oauth_tokens",
    "config": "config_watcher file_forms issuers lint loader options provider_config validation",
    "config.fields": "basic_types cloud_service_account color header_fields image setting_files",
    "config.importing": "conversion foreign_templates merged_upstreams oauth2_proxy_alpha path_bounds pomerium rejected_values",
    "config.importing.authelia": "authelia_conversion",
    "config.importing.authentik": "authentik_conversion",
    "config.inspect": "policy_text redaction",
    "config.parsing": "document key_positions parser yaml_reader",
    "config.routes": "rewrites route route_access_requests route_bearer_tokens route_cache route_identity_headers route_provider_tokens "
    "route_upstream_oauth route_values",
    "config.routes.policy": "criteria policy_language policy_route_keys",
    "config.routes.upstreams": "upstream_credentials upstream_urls",
    "config.settings": "authenticate_settings autocert_settings brand_settings directory_account directory_settings group_sources "
    "identity_providers linked_accounts provider_entry",
    "databroker": "audit_log broker_client claims clock_skew end_sessions leader_election models provider_scope record_cache records replica "
    "service service_account_store session_reader",
    "databroker.grants": "access_request_store grant_store",
    "databroker.admin": "end_sessions_action read_only_admin record_details service_account_admin session_admin",
    "databroker.rpc": "broker_server remote_broker",
    "databroker.store": "database database_threads memory redis_store sealed",
    "databroker.projection": "projection_verifier rows",
    "foundation": "bounded_cache auth_challenges claim_values client_network client_tls connection_errors email_address errors "
    "oauth_client_ids oauth_redirect_uris readiness single_flight values",
    "foundation.crypto": "agent_token cookies csrf_token device_codes programmatic sealing service_account_token session_cookie sign_in_attempts signed_urls "
    "signing_key",
    "foundation.rpc": "rpc_channel rpc_server shared_secret",
    "foundation.telemetry": "exposition http_metrics logs monitoring_app output grpc_metrics",
    "foundation.telemetry.tracing": "export spans tracer",
    "foundation.web": "brand languages pages plain_text",
    "gateproject": "admin_site middleware settings",
    "gateproject.management": "broker_access online_checks",
    "gateproject.management.commands": "endsessions grants rungate",
    "gateproject.postgresql_engine": "base",
    "gateproject.process": "database_migrations metrics_listener third_party_server reload restart_only rpc_services runtime start",
    "gateproject.process.workers": "link metrics_aggregator primary worker",
    "gateproject.tunnel": "access_tokens browser_sign_in device_sign_in oauth_client token_file web_browser",
    "proxy": "client_address incoming_request reserved_paths route_forwarding service upgrades verdict_builder",
    "proxy.autocert": "acme_client certificate_renewal certificate_storage ocsp_client order_backoff staple_cache stored_certificate",
    "proxy.envoy": "config_publisher connect_failover data_plane downstream_connections envoy_request_head envoy_tunnel_transport "
    "ext_authz_listener ext_authz_server internal_listener shared_connection",
    "proxy.envoy.process": "envoy_statistics",
    "proxy.envoy.proxied": "active_requests proxied_request",
    "proxy.envoy.resources": "bootstrap certificate_secrets configured_hosts edge_listener ext_authz_filter file_discovery "
    "http_connection_manager http3_listener internal_headers response_filter upgrade_reaper upstream_clusters",
    "proxy.forwarding": "http_forwarding idle_timer tcp_tunnel tunnel",
    "proxy.listener": "bounded_accept client_socket client_transport daphne_command daphne_options event_loop fair_selector half_close "
    "https_redirects listener_context listeners server tunnel_transport",
    "proxy.listener.http1": "exchange http1_channel request_body request_head response_head",
    "proxy.listener.proxy_protocol": "header_reader proxy_header",
    "proxy.listener.tls": "acme_challenge client_hello self_signed server_certificates",
    "proxy.mcp": "buffered_body endpoint_reader event_stream list_filter mcp_cors mcp_json mcp_origin message_parser",
    "proxy.observe": "request_metrics request_recorder",
    "proxy.planes": "embedded ext_authz forward_auth open_streams original_request pipeline stream_tracking",
    "proxy.responses": "builtin_pages denials renderer route_redirects",
    "proxy.rewriting": "connection_auth forwarded_headers request_headers reserved_headers response_headers target",
    "proxy.sign_in": "loops redirect_uris saved_forms sign_in_urls",
    "proxy.third_party_asgi": "http_adapter strict_scope websocket_client",
    "proxy.upstreams": "cluster grpc_health idle_connections outgoing_request upstream_client upstream_connection upstream_errors upstream_exchange "
    "upstream_tls",
    "proxy.views": "programmatic_login route_host",
    "proxy.websocket": "frames handshake",
}

# The tests of a package are those under tests/unit of its name, and these.
MORE_TESTS = {
    "authenticate": "contract/test_directories.py unit/gateproject/management/test_online_checks.py",
    "authorize": "contract/test_path_readings.py contract/test_user_entries.py unit/authenticate/api/test_api_authenticator.py "
    "unit/proxy/test_upstream_credentials.py",
    "config": "unit/authenticate/scim/test_scim_directory.py unit/authorize/policy/language/test_grant_criteria.py "
    "unit/authorize/test_several_providers.py unit/proxy/sign_in/test_sign_in_urls.py",
    "databroker": "contract/test_stores.py integration/databroker/store/test_redis_store.py integration/test_admin_secrets.py "
    "unit/authenticate/access_requests/test_access_request_service.py unit/authenticate/scim/test_scim_directory.py unit/authorize/identity "
    "unit/authorize/test_several_providers.py",
    "foundation": "unit/authenticate/test_jwks_publisher.py unit/authorize/policy/language/test_identity_criteria.py "
    "unit/authorize/rpc/test_ext_authz.py unit/authorize/test_several_providers.py",
    "gateproject": "unit/authorize/rpc/test_ext_authz.py",
    "proxy": "integration/proxy/autocert/test_acme_client.py unit/authorize/rpc/test_ext_authz.py",
}

# Every mutant of these packages is noticed or in ignored.py.  Those of other packages are only reported.
WORKED_THROUGH = {"authorize.policy.paths", "foundation.crypto", "proxy.mcp", "proxy.rewriting"}


def guard_modules(package: str) -> list[str]:
    return [f"{folder}.{name}" for folder, names in GUARDS.items() if folder.partition(".")[0] == package for name in names.split()]


def guard_tests(package: str) -> list[str]:
    return [f"tests/{path}" for path in (f"unit/{package}", *MORE_TESTS[package].split())]
