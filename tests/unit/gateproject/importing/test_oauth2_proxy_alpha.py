"""The alpha configuration means what the ordinary one means."""

from pathlib import Path

import yaml

from gateproject.importing.oauth2_proxy import convert
from gateproject.importing.oauth2_proxy_alpha import flat
from gateproject.importing.reading import read
from gateproject.importing.writing import as_yaml


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
