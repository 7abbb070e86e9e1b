"""Keys that importers report as unsupported: a new setting or route key must be removed from these lists."""

import re

import pytest

from config.importing import oauth2_proxy_keys, pomerium
from config.options import Options
from config.routes.route import Route

KEYS = {*Options.attributes(), *Route.attributes()}
LOST = {
    "oauth2-proxy": oauth2_proxy_keys.LOST,
    "Pomerium": pomerium.WHY_LOST,
    "Pomerium, of a route": pomerium.ROUTE_LOST,
}
# Keys of which gate has no counterpart, and the names that one would have.
ABSENT = {
    "cookie_refresh": "cookie_refresh|refresh_period",
    "cookie_samesite": "same_?site|partitioned",
    "cookie_same_site": "same_?site|partitioned",
    "cookie_path": "cookie_path",
    "cookie_csrf_per_request": "csrf",
    "real_client_ip_header": "client_ip|real_ip",
    "htpasswd_file": "htpasswd",
    "skip_provider_button": "provider_button",
    "code_challenge_method": "code_challenge|pkce",
    "insecure_oidc_allow_unverified_email": "unverified",
    "custom_templates_dir": "templates?(_dir|_file)?$",
    "proxy_prefix": "proxy_prefix",
    "runtime_flags": "runtime_flags",
    "jwt_issuer_format": "issuer_format",
    "envoy_admin_address": "envoy_admin",
    "codec_type": "codec",
    "tls_downstream_server_name": "downstream_server_name",
    "rewrite_response_headers": "rewrite_response|response_rewrite",
    "show_error_details": "error_details",
    "response": "^(response|static|direct_response)",
    "regex_priority_order": "priority",
    "upstream_tunnel": "upstream_tunnel",
    "circuit_breaker_thresholds": "circuit_breaker",
    "tls_upstream_allow_renegotiation": "renegotiation",
    "depends_on": "depends_on",
    "kubernetes_api_server_url": "api_server",
}


@pytest.mark.parametrize("table", LOST)
def test_lost_key_is_unknown_to_gate_or_names_replacement(table: str) -> None:
    for key, why in LOST[table].items():
        named = {word for word in re.findall(r"\w+", why) if word in KEYS}
        assert named or key in ABSENT, f"{key}: name the setting that takes its place, or what a counterpart would be called"


@pytest.mark.parametrize("key", ABSENT)
def test_keys_documented_as_absent_do_not_exist(key: str) -> None:
    assert [name for name in KEYS if re.search(ABSENT[key], name) and not any(name in table.get(key, "") for table in LOST.values())] == []


@pytest.mark.parametrize("table", LOST)
def test_a_key_that_gate_has_by_the_same_name_is_explained_by_it(table: str) -> None:
    same = {key for key in LOST[table] if key in (Route if "route" in table else Options).attributes()}
    assert {key for key in same if key not in LOST[table][key]} == set()


@pytest.mark.parametrize("table", LOST)
def test_names_in_texts_exist(table: str) -> None:
    of_others = {"several_providers"}  # a page
    for key, why in LOST[table].items():
        assert set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", why)) - KEYS - of_others == set(), key


def test_no_provider_token_is_claimed_to_stay() -> None:
    texts = [why for table in LOST.values() for why in table.values()]
    assert [why for why in texts if "never leave" in why or "no such setting" in why] == []
