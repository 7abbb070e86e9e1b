"""`importconfig` prints a configuration, and the number of notes to review on stderr."""

import json
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gateproject.management.commands.importconfig import Command

KEYS = (
    *(
        "rules",
        "domain",
        "policy",
        "subject",
        "networks",
        "resources",
        "domain_regex",
        "query",
        "session",
        "cookies",
        "definitions",
        "network",
    ),
    *("model", "id", "identifiers", "attrs", "pk", "name", "external_host", "skip_path_regex", "provider", "target", "group", "providers"),
    *("bindings", "groups", "results", "labels", "deploy", "traefik.http.routers.a.rule", "traefik.http.routers.a.middlewares"),
)


def run(path: Path, upstreams: Path | None = None) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    command = Command(stdout=out, stderr=err, no_color=True)
    try:
        command.handle(file=path, upstreams=upstreams)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_it_prints_yaml_and_counts(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("idp_provider: google\nautocerts: x\nroutes: [{from: https://a.example.com, to: http://b}]\n")
    code, out, err = run(tmp_path / "p.yaml")
    assert code == 0
    assert yaml.safe_load(out)["policy"] == [{"from": "https://a.example.com", "to": "http://b"}]
    assert err.strip() == "1 route; LOST: 1 key, to CHECK: 0 keys"


def test_an_import_without_a_route_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {app: {image: app}}\n")
    code, _, err = run(tmp_path / "compose.yaml")
    assert code == 1
    assert "no route found" in err


def test_oauth2_proxy_gets_fresh_secrets_each_time(tmp_path: Path) -> None:
    (tmp_path / "o.cfg").write_text('client_id = "x"\nupstreams = []\n')
    first, second = (yaml.safe_load(run(tmp_path / "o.cfg")[1]) for _ in range(2))
    assert first["shared_secret"] != second["shared_secret"]


@pytest.mark.parametrize("text", ["[", "a: 1\n"])
def test_unreadable_input_ends_with_one_line_and_1(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    code, out, err = run(tmp_path / "c.yaml")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


def test_policy_and_upstream_may_be_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "authelia.yml").write_text("access_control: {rules: [{domain: '*.example.com', policy: one_factor}]}\n")
    (tmp_path / "compose.yaml").write_text("services: {app: {labels: ['traefik.http.routers.app.rule=Host(`app.example.com`)']}}\n")
    code, out, _ = run(tmp_path / "authelia.yml", tmp_path / "compose.yaml")
    app, others = yaml.safe_load(out)["policy"]
    assert code == 0
    assert (app["from"], app["to"], app["allow_any_authenticated_user"]) == ("https://app.example.com", "http://app", True)
    assert others["from"] == "https://*.example.com"


def test_upstreams_are_taken_from_a_compose_file_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("access_control: {rules: []}\n")
    code, out, err = run(tmp_path / "a.yml", tmp_path / "a.yml")
    assert (code, out) == (1, "")
    assert "--upstreams requires a Compose file" in err


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "a.test", "*.a.test", "https://a.test", "http://[", "(", "Host(`a.test`)", "x:y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("product", ["access_control", "entries", "applications", "services"])
@settings(max_examples=60)
@given(value=ANYTHING, rest=st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=3))
def test_any_file_is_imported_or_explained(product: str, value: Any, rest: dict[str, Any]) -> None:
    written = {**rest, product: {"rules": [value], "results": [value], "a": {"labels": value}} if product != "entries" else [value]}
    with TemporaryDirectory() as directory:
        path = Path(directory) / "x.json"
        path.write_text(json.dumps(written))
        code, out, err = run(path)
    assert code in (0, 1)
    assert err.count("\n") == 1 or code == 1
    assert code or "policy" in yaml.safe_load(out)
