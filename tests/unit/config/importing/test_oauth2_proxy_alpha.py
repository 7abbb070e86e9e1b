"""The alpha configuration means what the ordinary one means."""

from pathlib import Path

import yaml

from config.importing.foreign_file import read
from config.importing.oauth2_proxy import convert
from config.importing.oauth2_proxy_alpha import flat
from config.importing.yaml_output import as_yaml


def test_the_alpha_form_says_the_same(tmp_path: Path) -> None:
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
    printed = as_yaml(convert(read(tmp_path / "alpha.yaml"), lambda: bytes(32)), "x")
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


def test_who_passes_at_the_provider_only_does_not_pass_here(tmp_path: Path) -> None:
    (tmp_path / "alpha.yaml").write_text(
        "providers: [{provider: github, clientID: x, githubConfig: {org: acme}}]\n"
        "upstreamConfig: {upstreams: [{id: a, path: /, uri: 'http://b'}]}\nemail_domains: ['*']\n"
    )
    printed = as_yaml(convert(read(tmp_path / "alpha.yaml"), lambda: bytes(32)), "x")
    assert "allow_any_authenticated_user" not in yaml.safe_load(printed)["policy"][0]
    assert "LOST providers[0].githubConfig.org" in printed


def test_a_header_that_gate_does_not_send_is_named(tmp_path: Path) -> None:
    (tmp_path / "alpha.yaml").write_text(
        "upstreamConfig: {upstreams: []}\nproviders: [{provider: oidc}]\n"
        "injectRequestHeaders: [{name: A, values: [{claim: access_token}]}, {name: B, values: [{claim: email}]}]\n"
    )
    printed = as_yaml(convert(read(tmp_path / "alpha.yaml"), lambda: bytes(32)), "x")
    assert "LOST injectRequestHeaders[0]" in printed
    assert "LOST injectRequestHeaders[1]" not in printed
