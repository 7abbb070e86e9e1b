"""Keys of oauth2-proxy and their counterparts in gate."""

from config.importing.oauth2_proxy_alpha import INJECTED

PROVIDERS = {
    "google": "google",
    "azure": "azure",
    "entra-id": "azure",
    "github": "github",
    "gitlab": "gitlab",
    "oidc": "oidc",
    "keycloak-oidc": "oidc",
    "adfs": "oidc",
}
SAME = {
    "client_id": "idp_client_id",
    "client_secret": "idp_client_secret",
    "client_secret_file": "idp_client_secret_file",
    "oidc_issuer_url": "idp_provider_url",
    "cookie_name": "cookie_name",
    "cookie_expire": "cookie_expire",
    "cookie_secure": "cookie_secure",
    "cookie_httponly": "cookie_http_only",
    "tls_cert_file": "certificate_file",
    "tls_key_file": "certificate_key_file",
    "metrics_address": "metrics_address",
    "trusted_proxy_ips": "trusted_proxies",
}
CHECKED = {
    "https_address": ("address", "gate has one address; with TLS it accepts TLS only"),
    "redis_connection_url": (
        "databroker_storage_connection_string",
        "sessions of oauth2-proxy are not migrated: users sign in again",
    ),
    "oidc_groups_claim": ("groups_claim", "groups come from this claim or from a directory"),
    "whitelist_domains": (
        "programmatic_redirect_domain_whitelist",
        "after sign-in gate redirects to its own routes only; this is for programmatic login",
    ),
}
# Restrictions at the provider. Without a counterpart, all users are denied.
CLOSING: tuple[str, ...] = (
    *("github_org", "github_team", "github_repo", "github_user", "github_users", "gitlab_group", "gitlab_groups"),
    *("gitlab_project", "gitlab_projects", "google_group", "google_groups", "bitbucket_team", "bitbucket_repository"),
    *("keycloak_group", "keycloak_groups", "allowed_role", "allowed_roles", "azure_tenant"),
)
RESTRICTIONS: tuple[str, ...] = ("email_domains", "authenticated_emails_file", "allowed_groups", *CLOSING)
# Keys that send provider tokens to upstreams.
TOKEN_HEADERS = {
    "pass_access_token": ("X-Forwarded-Access-Token", "${access_token}"),
    "pass_authorization_header": ("Authorization", "Bearer ${id_token}"),
}
LOST = {
    "cookie_refresh": "gate refreshes sessions one minute before the access token expires",
    "cookie_samesite": "gate's cookies are SameSite=Lax",
    "cookie_path": "a session applies to a whole host",
    "cookie_csrf_per_request": "each sign-in attempt has its own cookie",
    "reverse_proxy": "use trusted_proxies: a list of addresses instead of a boolean",
    "real_client_ip_header": "gate reads X-Forwarded-For from trusted_proxies",
    "pass_basic_auth": "basic_auth of a route has one user and password for all requests; X-Gate-Jwt-Assertion identifies the user",
    "basic_auth_password": "basic_auth of a route has one user and password for all requests; X-Gate-Jwt-Assertion identifies the user",
    "set_authorization_header": "front proxies do not receive the provider's tokens; pass_provider_tokens is for routes that gate forwards",
    "injectResponseHeaders": "forward auth responds with X-Auth-Request-... headers if the route has identity_headers: oauth2-proxy",
    "htpasswd_file": "users sign in at the provider only",
    "skip_provider_button": "gate has no page before the provider's",
    "skip_jwt_bearer_tokens": "per route: bearer_token",
    "extra_jwt_issuers": "per route: bearer_token",
    "code_challenge_method": "PKCE with S256 is always used",
    "insecure_oidc_allow_unverified_email": "an unverified address matches no rule",
    "ssl_insecure_skip_verify": "the provider's certificate is always verified; certificate_authority adds a private CA",
    "custom_templates_dir": "gate's pages can't be replaced",
    "proxy_prefix": "gate's own paths start with /.gate/",
    "ping_path": "gate uses /ping and /healthz; health_paths_on_routes: false forwards both to the applications on route hosts",
    "redis_use_sentinel": "use a sentinel URL in databroker_storage_connection_string",
    "redis_use_cluster": "use a cluster URL in databroker_storage_connection_string",
}
HANDLED = {"upstreams", "redirect_url", "provider", "scope", "cookie_secret", "cookie_domains", "skip_auth_routes", "skip_auth_regex"}
HANDLED |= {"skip_auth_preflight", "pass_host_header", "pass_user_headers", "ssl_upstream_insecure_skip_verify", "http_address", "prompt"}
HANDLED |= {"acr_values", "session_store_type", "upstream_timeout", "set_xauthrequest", *RESTRICTIONS}
HANDLED |= {*TOKEN_HEADERS, INJECTED}
