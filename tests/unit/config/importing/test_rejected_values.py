"""gate accepts every converted file: rejected values are removed and noted, and no route allows more because of that."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.importing.conversion import GRANTS, OPEN, Conversion, ConvertedSection
from config.importing.rejected_values import drop_failing_tests
from config.importing.yaml_output import render_yaml
from config.loader import check_configuration
from foundation.errors import Problem
from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS
from gateproject.management.commands.importconfig import imported

SECRET = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
POMERIUM = f"""
authenticate_service_url: https://authenticate.example.com
idp_provider: google
idp_client_id: gate
idp_client_secret: s3cret
shared_secret: {SECRET}
cookie_secret: fGYdPBSyz5pWxDrjlwUZ7mQc3sQ1b1Z1fSUE0xgYh3E=
insecure_server: true
address: 127.0.0.1:8000
"""
OAUTH2 = """
provider = "oidc"
client_id = "gate"
client_secret = "s3cret"
oidc_issuer_url = "https://idp.example.com"
redirect_url = "https://app.example.com/oauth2/callback"
http_address = "127.0.0.1:4180"
"""
ROUTE = "{from: https://a.example.com, to: http://b, allowed_users: [a@b.org]"
# Values that only the operator can supply.
REQUIRED_KEYS = {"shared_secret", "cookie_secret", "idp_client_id", "idp_client_secret", "idp_provider", "idp_provider_url", "certificate"}

ROUTES = [
    f"{ROUTE}}}",
    "{from: ssh://a, to: ssh://b:22, policy: [{allow: {or: [{ssh_publickey: {is: x}}]}}]}",
    "{from: udp+https://a.example.com:53, to: udp://b:53, allowed_users: [a@b.org]}",
    "{from: tcp+https://a.example.com:22, to: [tcp://b:22], allowed_users: [a@b.org], set_request_headers: {X: y}, timeout: 5s}",
    "{from: tcp+http://a.example.com:22, to: tcp://b:22}",
    "{from: http://a.example.com, to: http://b}",
    "{from: 'https://*.*.example.com', to: http://b}",
    "{from: https://a.example.com/path, to: http://b}",
    "{from: 'https://a${N}.example.com', to: http://b}",
    "{from: https://a.example.com, to: 'unix:///run/x.sock', allow_any_authenticated_user: true}",
    "{from: https://a.example.com, to: 'h2c://b:80', allow_any_authenticated_user: true}",
    "{from: https://a.example.com, to: ['http://b,1', 'http://c'], allow_any_authenticated_user: true}",
    "{from: https://a.example.com, response: {status: 200, body: x}, allow_public_unauthenticated_access: true}",
    "{from: https://a.example.com, redirect: {https_redirect: true, unheard_of: 1}, allow_public_unauthenticated_access: true}",
    "{from: https://a.example.com, to: http://b, regex: '(?=x)', allow_public_unauthenticated_access: true}",
    "{from: https://a.example.com, to: http://b, prefix: no-slash, allow_any_authenticated_user: true}",
    "{from: https://a.example.com, to: http://b, tls_downstream_client_ca: x, allow_any_authenticated_user: true}",
    "{from: https://a.example.com, to: http://b, allow_any_authenticated_user: true, allowed_users: [a@b.org]}",
    "{from: https://a.example.com, to: http://b, policy: [{deny: {or: [{device: {is: x}}]}}], allow_any_authenticated_user: true}",
    f"{ROUTE}, timeout: soon, lb_policy: NONE, health_checks: [{{x: 1}}], outlier_detection: {{unheard_of: 5}}}}",
    f"{ROUTE}, set_request_headers: {{'a b': c, X-Pomerium-Claim: x}}, remove_request_headers: [Host]}}",
    f"{ROUTE}, set_request_headers: 'X:${{pomerium.jwt}}', kubernetes_service_account_token: ''}}",
    f"{ROUTE}, set_request_headers: {{A: 1, B: null, C: [x], D: 'a$$b', E: '$1', Host: x, X-Gate-Jwt-Assertion: x}}}}",
    f"{ROUTE}, tls_client_cert: '!', tls_custom_ca: x, tls_client_key_file: /nowhere}}",
    f"{ROUTE}, regex_rewrite_pattern: '(', host_rewrite: 'a b', host_rewrite_header: X, prefix_rewrite: x}}",
    f"{ROUTE}, mcp: {{server: {{}}}}, sub_policies: [{{allowed_users: [x]}}], bearer_token_format: idp_access_token, idp_client_id: x}}",
    "{from: https://a.example.com}", "{to: http://b}", "{}", "x", "null", "[]",
]  # fmt: skip
TOPS = [
    "idp_provider: ping", "idp_provider: apple", "idp_provider: nobody", "idp_client_secret: '${SECRET}'", "log_level: loud",
    "shared_secret_file: /run/secrets/x", "cookie_secret_file: /x", "address: nowhere at all", "cookie_expire: long", "headers: x",
    "set_response_headers: {X: '${pomerium.jwt}'}", "jwt_claims_headers: X-Email:email", "jwt_claims_headers: {X: 'a b'}",
    "services: everything", "authenticate_internal_service_url: https://x", "timeout_read: 10", "grpc_address: x", "metrics_address: ':x'",
    "databroker_storage_type: postgres\ndatabroker_storage_connection_string: postgres://u:p@h/d", "tracing_provider: otlp",
    "databroker_storage_type: file", "autocert: true\nautocert_dir: /x", "dns_lookup_family: V9", "codec_type: http3", "branding: {a: b}",
    "downstream_mtls: {enforcement: reject_connection, max_verify_depth: 1}", "runtime_flags: {x: true}", "ssh_address: ':22'",
    "idp_service_account: '!'", "idp_request_params: [x]", "trusted_proxies: x", "signing_key: x", "use_proxy_protocol: maybe",
]  # fmt: skip
ALPHA = """
providers: [{provider: oidc, clientID: gate, clientSecret: "${SECRET}", oidcConfig: {issuerURL: "https://idp.example.com"}}]
upstreamConfig: {upstreams: [{id: a, path: /, uri: "http://b"}, {id: b, path: /x, uri: "file:///x"}, {id: c, path: /y, static: true}]}
injectRequestHeaders: [{name: A, values: [{claim: access_token}]}, {name: B, values: [{claim: email}, {secretSource: {value: eA==}}]}]
"""


def samples() -> list[tuple[str, str]]:
    """(name of the file, what is in it)"""
    files = [("p.yaml", f"{POMERIUM}routes: [{route}]") for route in ROUTES]
    files += [("p.yaml", f"{POMERIUM}routes:\n" + "\n".join(f"  - {route}" for route in ROUTES))]
    for top in TOPS:
        keys = {line.partition(":")[0] for line in top.splitlines()}
        lines = [line for line in POMERIUM.splitlines() if line.partition(":")[0] not in keys]
        files.append(("p.yaml", "\n".join([*lines, top, f"routes: [{ROUTES[0]}]"])))
    files += [("p.yaml", POMERIUM + text) for text in ("routes: x", "routes: {a: b}", "routes: W10=", "policy: 5", "routes: [[]]", "")]
    demands = (
        "",
        'email_domains = ["*"]',
        'email_domains = ["*"]\nallowed_roles = ["admin"]',
        'email_domains = ["*"]\ngithub_users = ["x"]',
    )
    upstreams = ("[]", '["http://b/"]', '["file:///x", "unix:///y", "static://200"]', '["http://b/x", "https://c/y/"]', '["http://b c/"]')
    others = (
        'cookie_expire = "soon"',
        'upstream_timeout = "x"',
        'cookie_secret = "${X}"',
        'skip_auth_routes = ["GET=^/x", "(?=y)", "^/z"]',
    )
    files += [("o.cfg", f"{OAUTH2}{demand}\nupstreams = {upstream}\n") for demand in demands for upstream in upstreams]
    files += [("o.cfg", f'{OAUTH2}email_domains = ["*"]\nupstreams = ["http://b/"]\n{other}\n') for other in others]
    return [*files, ("alpha.yaml", ALPHA)]


@pytest.mark.parametrize(("name", "text"), samples())
def test_printed_configuration_is_valid(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    printed = render_yaml(imported(tmp_path / name), name)
    (tmp_path / "ours.yaml").write_text(printed)
    errors = check_configuration(tmp_path / "ours.yaml", {}, ALL_CONFIG_CHECKS).errors
    assert [error for error in errors if error.key not in REQUIRED_KEYS and not error.key.endswith("_file")] == []
    for error in errors:
        assert f"# NEW gate check will report: {error.key}" in printed


def routes(tmp_path: Path, *written: str) -> tuple[list[dict[str, Any]], str]:
    (tmp_path / "p.yaml").write_text(POMERIUM + "routes:\n" + "\n".join(f"  - {route}" for route in written))
    printed = render_yaml(imported(tmp_path / "p.yaml"), "p.yaml")
    return yaml.safe_load(printed)["policy"] or [], printed


@pytest.mark.parametrize("scheme", ["ssh://a", "udp+https://a.example.com:53", "h3://a.example.com"])
def test_a_route_of_another_protocol_is_marked_as_lost(tmp_path: Path, scheme: str) -> None:
    found, printed = routes(tmp_path, f"{{from: '{scheme}', to: 'http://b', allow_any_authenticated_user: true}}", ROUTES[0])
    assert [route["from"] for route in found] == ["https://a.example.com"]
    assert "# LOST from: the scheme must be" in printed


@pytest.mark.parametrize(
    "narrow", ["regex: '(?=x)'", "prefix: x", "path: x", "tls_downstream_client_ca: x", "prefix: '/${X}'", "policy: [{deny: {x: 1}}]"]
)
@pytest.mark.parametrize(
    "grant", ["allow_any_authenticated_user: true", "allow_public_unauthenticated_access: true", "allowed_users: [a@b.org]"]
)
def test_route_losing_its_restriction_is_closed(tmp_path: Path, narrow: str, grant: str) -> None:
    found, printed = routes(tmp_path, f"{{from: 'https://a.example.com', to: 'http://b', {narrow}, {grant}}}")
    assert set(found[0]) & {*GRANTS, *OPEN, "policy"} == set()
    assert "# LOST" in printed


@pytest.mark.parametrize("leads", ["response: {status: 200}", "to: 'unix:///x'", "to: '${X}'"])
def test_a_route_that_leads_nowhere_keeps_its_requests_from_the_next_one(tmp_path: Path, leads: str) -> None:
    first = f"{{from: 'https://a.example.com', prefix: /admin, {leads}, allowed_users: [a@b.org]}}"
    found, _ = routes(tmp_path, first, "{from: https://a.example.com, to: http://b, allow_public_unauthenticated_access: true}")
    assert found[0] == {"from": "https://a.example.com", "prefix": "/admin", "to": "https://upstream.invalid"}
    assert len(found) == 2


def test_an_authority_that_can_not_be_read_stays_so_that_gate_does_not_start_without_it(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"{POMERIUM}client_ca: x\nroutes: [{ROUTES[0]}]".replace("insecure_server: true", "autocert: true"))
    printed = render_yaml(imported(tmp_path / "p.yaml"), "p.yaml")
    assert yaml.safe_load(printed)["client_ca"] == "x"
    assert "# NEW gate check will report: client_ca" in printed


def test_a_test_that_expects_a_refusal_and_fails_closes_its_host() -> None:
    converted = Conversion("x")
    for host in ("*.example.com", "b.example.com"):
        route = ConvertedSection()
        route.set(None, "from", f"https://{host}")
        route.set(None, "allow_any_authenticated_user", True)
        converted.routes.append(route)
    converted.tests = [
        {"name": f"t{number}", "url": "https://a.example.com/", "expect": expect} for number, expect in enumerate(("allow", "refuse"))
    ]
    drop_failing_tests(converted, lambda content: [Problem("policy_tests[1]", "fails: expected refuse, got allow")])
    first, second = converted.routes
    assert not first.has("allow_any_authenticated_user")
    assert second.has("allow_any_authenticated_user")
    assert [test["name"] for test in converted.tests] == ["t0"]
    assert [note.text for note in first.notes()] == ["t1: GET https://a.example.com/ fails: expected refuse, got allow"]
