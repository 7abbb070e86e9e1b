"""The modules with guards, by package, and the tests that must notice when one of their guards is missing."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Guards:
    """Modules of a package.  `more` are files or folders under tests/ that test them, besides the folder of the package under tests/unit."""

    package: str
    names: str
    more: str = ""

    @property
    def modules(self) -> list[str]:
        return [f"{self.package}.{name}" for name in self.names.split()]

    @property
    def tests(self) -> list[str]:
        folder = ROOT / "tests/unit" / self.package.replace(".", "/")
        return [*sorted(str(path.relative_to(ROOT)) for path in folder.glob("test_*.py")), *(f"tests/{each}" for each in self.more.split())]


GUARDS = (
    Guards(
        "authenticate",
        "admin audit_trail bearer_tokens post_logout_redirect provider_choice published_keys redirect_targets "
        "removed_directories removed_providers service step_up",
        "unit/authenticate/views/test_authorization_request.py unit/authenticate/views/test_scim.py",
    ),
    Guards("authenticate.access", "desk telling webhook", "unit/authenticate/api/test_access_requests.py"),
    Guards("authenticate.api", "access access_requests call cursors reading service_accounts sessions"),
    Guards("authenticate.directory", "file provider_directory reading sync"),
    Guards("authenticate.directory.vendors", "api auth0 azure builder gitlab okta vendor", "contract/test_directories.py"),
    Guards("authenticate.portal", "choices programs"),
    Guards(
        "authenticate.provider",
        "address_scope claim_limits client client_refusals clients discovery django_oidc http id_token issuer key_set "
        "logout_token pushed_request signed_token single_flight strict_json tokens",
        "unit/authenticate/session/test_provider_logout.py unit/authenticate/test_several_providers.py "
        "unit/authenticate/views/test_callback.py unit/authenticate/views/test_sign_out.py "
        "unit/gateproject/management/test_online_checks.py",
    ),
    Guards(
        "authenticate.provider.kinds",
        "azure base generic github oidc",
        "unit/authenticate/test_bearer_tokens.py unit/authenticate/views/test_callback.py",
    ),
    Guards(
        "authenticate.scim",
        "access access_records attributes changes directory filters index patch resources",
        "unit/authenticate/views/test_scim.py",
    ),
    Guards(
        "authenticate.session",
        "linked_index other_sessions provider_logout provider_sessions refresh refresh_worker renewal sessions wanted_tokens",
        "unit/authenticate/portal/test_own_sessions.py unit/authenticate/test_linked_accounts.py "
        "unit/authenticate/views/test_authorization_request.py unit/authenticate/views/test_sessions.py",
    ),
    Guards(
        "authenticate.views",
        "answers api authorization_request callback callers portal program provider_logout refresh scim sessions sign_in sign_out",
        "unit/authenticate/provider/test_pushed_request.py unit/authenticate/test_endings.py unit/authenticate/test_several_providers.py",
    ),
    Guards(
        "authorize",
        "access_rules admin config_checks envoy_answers openings route_hosts service user_entry_checks",
        "unit/authorize/identity/test_bearer_port.py unit/authorize/rpc/test_ext_authz.py unit/proxy/test_upstream_credentials.py",
    ),
    Guards("authorize.decision_log", "log recorded_facts recorder rows"),
    Guards("authorize.explain", "recorded_user replay"),
    Guards(
        "authorize.identity",
        "client_certificates credentials loader person_records service_accounts",
        "contract/test_user_entries.py unit/authenticate/api/test_access.py unit/authorize/test_linked_accounts.py "
        "unit/authorize/test_service.py unit/authorize/test_several_providers.py",
    ),
    Guards(
        "authorize.policy",
        "compiled_route criterion decision identity request route_table truth unreachable_routes user_entry",
        "contract/test_path_readings.py contract/test_user_entries.py unit/authorize/decision_log/test_shadow.py "
        "unit/authorize/identity/test_client_certificates.py unit/authorize/policy/language/test_expressions.py "
        "unit/authorize/policy/language/test_request_criteria.py unit/authorize/policy/paths/test_canonical.py "
        "unit/authorize/test_several_providers.py",
    ),
    Guards(
        "authorize.policy.language",
        "access_criteria expressions person_criteria request_criteria route_key_criteria time_criteria",
        "contract/test_user_entries.py unit/authorize/decision_log/test_recorded_facts.py unit/authorize/policy/test_step_up.py "
        "unit/authorize/test_several_providers.py",
    ),
    Guards("authorize.policy.paths", "canonical readings", "contract/test_path_readings.py"),
    Guards("authorize.rpc", "attributes client ext_authz"),
    Guards("authorize.timeline", "filters words zone"),
    Guards("authorize.upstream", "cloud_serverless credentials header_values identity_headers provider_tokens told_headers"),
    Guards(
        "config",
        "file_forms identity_provider issuers load options source validation weaknesses",
        "unit/authenticate/scim/test_directory.py unit/authorize/test_several_providers.py unit/config/settings/test_identity_providers.py",
    ),
    Guards("config.documents", "document key_positions parse yaml_reader"),
    Guards(
        "config.importing",
        "converted oauth2_proxy_alpha path_bounds pomerium refused_values templates upstreams",
        "unit/config/importing/authelia/test_convert.py",
    ),
    Guards("config.importing.authelia", "convert"),
    Guards("config.importing.authentik", "convert"),
    Guards(
        "config.routes",
        "access_requests bearer_tokens provider_tokens rewrites route route_cache told_headers values",
        "unit/authorize/policy/language/test_access_criteria.py unit/config/test_source.py unit/proxy/sign_in/test_redirects.py",
    ),
    Guards("config.routes.policy", "language route_keys values", "unit/authorize/policy/test_compiled_route.py"),
    Guards("config.routes.upstreams", "credentials urls"),
    Guards("config.settings", "authenticate autocert brand directory directory_account identity_providers linked_accounts provider_entry"),
    Guards("config.shown", "policy_words values"),
    Guards("config.types", "cloud_service_account colour fields files headers picture"),
    Guards(
        "databroker",
        "admin claims client clock_skew end_sessions leader_election models own_records record_cache records replica "
        "service service_accounts session_reader",
        "unit/authenticate/scim/test_directory.py unit/authorize/identity/test_loader.py "
        "unit/authorize/identity/test_person_records.py unit/authorize/test_several_providers.py "
        "unit/databroker/adminsite/test_audit.py",
    ),
    Guards("databroker.access", "asked temporary", "unit/authenticate/access/test_desk.py"),
    Guards(
        "databroker.adminsite",
        "audit details end_sessions read_only service_account_admin",
        "integration/test_admin_secrets.py unit/databroker/test_admin.py",
    ),
    Guards("databroker.rpc", "client server"),
    Guards(
        "databroker.store",
        "database database_threads kvstore memory sealed",
        "contract/test_stores.py integration/databroker/store/test_kvstore.py",
    ),
    Guards("databroker.tables", "check rows"),
    Guards(
        "foundation",
        "bounded_cache challenges claim_values client_network client_tls connection_errors email_address errors readiness values",
        "unit/authorize/policy/language/test_person_criteria.py unit/authorize/test_several_providers.py",
    ),
    Guards(
        "foundation.crypto",
        "cookies csrf_token program_tokens sealing service_account_token session_cookie sign_in_attempts signed_urls signing_key",
        "unit/authenticate/test_published_keys.py",
    ),
    Guards("foundation.rpc", "channel server shared_secret", "unit/authorize/rpc/test_ext_authz.py"),
    Guards("foundation.telemetry", "exposition http_calls logs operator_pages output rpc_calls"),
    Guards("foundation.telemetry.tracing", "export spans tracer"),
    Guards("foundation.web", "accent pages plain_text preferences"),
    Guards("gateproject", "admin_site middleware settings"),
    Guards("gateproject.management", "broker_access online_checks"),
    Guards("gateproject.management.commands", "endsessions grants rungate"),
    Guards("gateproject.postgresql_engine", "base"),
    Guards(
        "gateproject.process",
        "database metrics_listener other_server reload restart_only rpc_services runtime start",
        "unit/authorize/rpc/test_ext_authz.py",
    ),
    Guards("gateproject.process.workers", "first link metrics_sum worker"),
    Guards("gateproject.tunnel", "sign_in socket_owner"),
    Guards(
        "proxy",
        "client_address incoming own_paths service state upgrades verdicts",
        "unit/authorize/rpc/test_ext_authz.py unit/proxy/envoy/test_judge.py unit/proxy/planes/test_embedded.py "
        "unit/proxy/views/test_program_login.py",
    ),
    Guards("proxy.answers", "own_pages redirects refusals send", "unit/proxy/planes/test_embedded.py"),
    Guards("proxy.autocert", "attempts authority certificate ocsp renewal staples storage", "integration/proxy/autocert/test_authority.py"),
    Guards(
        "proxy.envoy",
        "configuration connections head internal_listener judge judge_socket service shared_connection tunnel_end unconnected",
        "unit/proxy/envoy/carried/test_carried_trace.py",
    ),
    Guards(
        "proxy.envoy.carried",
        "carried_request carried_requests",
        "unit/proxy/envoy/test_judge.py unit/proxy/envoy/test_unconnected.py",
    ),
    Guards("proxy.envoy.child", "statistics"),
    Guards(
        "proxy.envoy.resources",
        "answers bootstrap certificates clusters discovery edge_headers ended_upgrades hosts http3 http_connections judge_filter listener",
    ),
    Guards("proxy.forwarding", "http idle_timer tcp tunnel", "unit/proxy/planes/test_embedded.py"),
    Guards(
        "proxy.listener",
        "client_socket client_transport daphne_command daphne_options fair_selector https_redirects server state tunnel wrapping",
    ),
    Guards("proxy.listener.http1", "body channel head request response"),
    Guards("proxy.listener.proxy_protocol", "header wrapper"),
    Guards("proxy.listener.tls", "acme_challenge certificates client_hello self_signed"),
    Guards("proxy.observe", "access_log request_metrics"),
    Guards("proxy.other_servers", "http scope websocket"),
    Guards(
        "proxy.planes",
        "embedded ext_authz forward_auth open_streams original_request pipeline",
        "unit/authorize/rpc/test_ext_authz.py",
    ),
    Guards(
        "proxy.rewriting",
        "connection_auth forwarding header_names request_headers response_headers target",
        "unit/proxy/test_upstream_credentials.py",
    ),
    Guards("proxy.sign_in", "kept_forms loops programs redirects", "unit/proxy/views/test_kept_form.py"),
    Guards("proxy.upstreams", "client cluster connection grpc_health request tls upstream_errors"),
    Guards("proxy.views", "program_login route_host"),
    Guards("proxy.websocket", "frames handshake"),
)

# Of these modules every mutant is noticed or in ignored.py.  Those of the others are reported alone, until somebody has worked through them.
WORKED_THROUGH = frozenset[str]()
