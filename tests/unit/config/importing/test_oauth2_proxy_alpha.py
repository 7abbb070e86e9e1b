"""The alpha configuration means what the ordinary one means."""

from pathlib import Path
from typing import Any

import yaml

from config.importing.foreign_file import read
from config.importing.oauth2_proxy import convert
from config.importing.oauth2_proxy_alpha import flat
from config.importing.yaml_output import render_yaml


def test_alpha_format_is_equivalent(tmp_path: Path) -> None:
    text = """\
providers:
  - provider: oidc
    clientID: gate
    clientSecret: s
    allowedGroups: [admins]
    oidcConfig: {issuerURL: https://idp.example.com, audienceClaims: [aud]}
upstreamConfig:
  upstreams:
    - {id: app, path: /, uri: "http://127.0.0.1:8080", passHostHeader: false}
server: {BindAddress: "127.0.0.1:4180"}
"""
    (tmp_path / "alpha.yaml").write_text(text)
    printed = render_yaml(convert(read(tmp_path / "alpha.yaml"), lambda: bytes(32)), "x")
    found = yaml.safe_load(printed)
    assert found["idp_provider_url"] == "https://idp.example.com"
    assert found["policy"][0]["to"] == "http://127.0.0.1:8080"
    assert "preserve_host_header" not in found["policy"][0]
    assert found["policy"][0]["allowed_groups"] == ["admins"]
    assert "LOST providers[0].oidcConfig.audienceClaims" in printed


def test_a_second_provider_is_named_as_one_that_is_left(tmp_path: Path) -> None:
    (tmp_path / "alpha.yaml").write_text("providers: [{provider: oidc}, {provider: google}]\n")
    values, sources = flat(read(tmp_path / "alpha.yaml"))
    assert values["provider"] == "oidc"
    assert str(sources["providers[1]"]) == "providers[1] (line 1)"


def test_users_admitted_by_provider_alone_are_denied_here(tmp_path: Path) -> None:
    (tmp_path / "alpha.yaml").write_text(
        "providers: [{provider: github, clientID: x, githubConfig: {org: acme}}]\n"
        "upstreamConfig: {upstreams: [{id: a, path: /, uri: 'http://b'}]}\nemail_domains: ['*']\n"
    )
    printed = render_yaml(convert(read(tmp_path / "alpha.yaml"), lambda: bytes(32)), "x")
    assert "allow_any_authenticated_user" not in yaml.safe_load(printed)["policy"][0]
    assert "LOST providers[0].githubConfig.org" in printed


def alpha(directory: Path, text: str) -> tuple[dict[str, Any], str]:
    (directory / "alpha.yaml").write_text(text)
    printed = render_yaml(convert(read(directory / "alpha.yaml"), lambda: bytes(32)), "x")
    return yaml.safe_load(printed), printed


UPSTREAM = "providers: [{provider: oidc}]\nupstreamConfig: {upstreams: [{id: a, path: /, uri: 'https://b'}]}\n"


def test_headers_of_other_names_are_set_one_by_one(tmp_path: Path) -> None:
    headers = """\
injectRequestHeaders:
  - {name: X-User, values: [{claim: preferred_username}]}
  - {name: X-Token, values: [{claim: access_token, prefix: "Bearer "}]}
  - {name: X-Created, values: [{claim: created_on}]}
  - {name: X-Two, values: [{claim: email}, {claim: groups}]}
"""
    found, printed = alpha(tmp_path, UPSTREAM + headers)
    (route,) = found["policy"]
    assert route["set_request_headers"] == {"X-User": "${claim.preferred_username}", "X-Token": "Bearer ${access_token}"}
    assert route["pass_provider_tokens"] is True
    assert "identity_headers" not in route
    assert ("LOST injectRequestHeaders[2]" in printed, "LOST injectRequestHeaders[3]" in printed) == (True, True)
    assert "LOST injectRequestHeaders[0]" not in printed


def test_headers_of_default_names_are_sent_as_before(tmp_path: Path) -> None:
    found, _ = alpha(tmp_path, UPSTREAM + "injectRequestHeaders: [{name: X-Forwarded-Email, values: [{claim: email}]}]\n")
    assert found["policy"][0]["identity_headers"] == "oauth2-proxy"


def test_a_path_that_is_rewritten_is_an_expression(tmp_path: Path) -> None:
    upstreams = """\
providers: [{provider: oidc, clientSecretFile: /run/secret}]
upstreamConfig:
  upstreams:
    - {id: app, path: /app/, uri: "http://app:1"}
    - {id: api, path: "^/api/(.*)$", rewriteTarget: "/$1", uri: "http://api:8000/ignored"}
    - {id: query, path: "^/q/(.*)$", rewriteTarget: "/?q=$1", uri: "http://q:1"}
    - {id: fixed, path: /ok, static: true, staticCode: 200}
    - {id: template, path: /t, uri: "${API_URL=http://api:8000}"}
"""
    found, printed = alpha(tmp_path, upstreams)
    rewritten, plain = found["policy"]
    assert rewritten["to"] == "http://api:8000"
    assert (rewritten["regex"], rewritten["regex_rewrite_pattern"], rewritten["regex_rewrite_substitution"]) == (
        "/api/(.*)",
        "^/api/(.*)$",
        "/\\1",
    )
    assert (plain["prefix"], plain["to"]) == ("/app/", "http://app:1")
    assert found["idp_client_secret_file"] == "/run/secret"
    assert "not queries" in printed
    assert "fixed responses" in printed
    assert "${API_URL=http://api:8000} is a template" in printed
