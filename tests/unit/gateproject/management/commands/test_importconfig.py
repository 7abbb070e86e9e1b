"""`importconfig` prints a configuration and counts on stderr what its reader must look at."""

from io import StringIO
from pathlib import Path

import pytest
import yaml

from gateproject.management.commands.importconfig import Command


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
    assert err.strip() == "1 routes; 1 lines were LOST, 0 are to CHECK"


def test_oauth2_proxy_gets_fresh_secrets_each_time(tmp_path: Path) -> None:
    (tmp_path / "o.cfg").write_text('client_id = "x"\nupstreams = []\n')
    first, second = (yaml.safe_load(run(tmp_path / "o.cfg")[1]) for _ in range(2))
    assert first["shared_secret"] != second["shared_secret"]


@pytest.mark.parametrize("text", ["[", "a: 1\n"])
def test_what_it_cannot_read_ends_with_one_line_and_1(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    code, out, err = run(tmp_path / "c.yaml")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


def test_who_enters_and_where_it_leads_may_stand_in_two_files(tmp_path: Path) -> None:
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
    assert "--upstreams takes a Compose file" in err
