"""oauth2-proxy as containers run it: by flags and variables, wherever they are written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.importing.foreign_file import OAUTH2_PROXY, TRAEFIK, ForeignConfig, read
from config.importing.oauth2_proxy import convert
from config.importing.yaml_output import render_yaml

FLAGS = [
    "--provider=oidc",
    "--client-id",
    "gate",
    "--upstream=http://app:8080/",
    "--upstream=http://api:1/api/",
    "--email-domain=example.com",
]
FLAGS += ["--pass-access-token", "--redirect-url=https://app.example.com/oauth2/callback", "--skip-provider-button=true"]
CONTAINER = {
    "image": "quay.io/oauth2-proxy/oauth2-proxy:v7.6.0",
    "args": FLAGS,
    "env": [{"name": "OAUTH2_PROXY_CLIENT_SECRET", "value": "s"}],
}
FILES: dict[str, Any] = {
    "Compose, a list": {
        "services": {"o2p": {"image": "oauth2-proxy", "command": FLAGS, "environment": {"OAUTH2_PROXY_CLIENT_SECRET": "s"}}}
    },
    "Compose, one text": {"services": {"o2p": {"command": " ".join(FLAGS), "environment": ["OAUTH2_PROXY_CLIENT_SECRET=s"]}}},
    "Kubernetes": {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"image": "app"}, CONTAINER]}}}},
}


def foreign(directory: Path, content: Any) -> ForeignConfig:
    (directory / "x.yaml").write_text(yaml.safe_dump(content))
    return read(directory / "x.yaml")


@pytest.mark.parametrize("form", FILES)
def test_flags_and_variables_are_read_wherever_they_are(tmp_path: Path, form: str) -> None:
    found = foreign(tmp_path, FILES[form])
    assert found.product == OAUTH2_PROXY
    text = render_yaml(convert(found, lambda: bytes(32)), "x")
    converted_keys = yaml.safe_load(text)
    assert (converted_keys["idp_client_id"], converted_keys["idp_client_secret"]) == ("gate", "s")
    assert [(route.get("prefix"), route["to"], route["allowed_domains"]) for route in converted_keys["policy"]] == [
        ("/api/", "http://api:1", ["example.com"]),
        (None, "http://app:8080", ["example.com"]),
    ]
    assert all(route["set_request_headers"] == {"X-Forwarded-Access-Token": "${access_token}"} for route in converted_keys["policy"])
    assert "skip_provider_button (line " in text


def test_labels_of_traefik_come_first(tmp_path: Path) -> None:
    content = {
        "services": {**FILES["Compose, a list"]["services"], "app": {"labels": ["traefik.http.routers.a.rule=Host(`a.example.com`)"]}}
    }
    assert foreign(tmp_path, content).product == TRAEFIK


@pytest.mark.parametrize("command", ["'", 5, None, {"a": 1}, ["--", "-", 5, None]])
def test_unknown_command_has_no_flags(tmp_path: Path, command: Any) -> None:
    found = foreign(tmp_path, {"services": {"o2p": {"image": "oauth2-proxy", "command": command, "environment": [None, 5, {"name": 1}]}}})
    assert found.product == OAUTH2_PROXY
