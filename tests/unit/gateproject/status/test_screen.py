"""The status screen; values from a gate cannot change its colours or layout."""

import io
import json
from pathlib import Path

from rich.console import Console

from config.options import Options
from gateproject.status.screen import MAX_ROUTES, screen
from gateproject.status.snapshot import Reading
from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.options import make_options

from .test_snapshot import metrics, reading


def render(now: Reading, before: Reading, options: Options | None = None, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(screen([(now, before)], options))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_one_screen_displays_state_parts_and_routes() -> None:
    text = render(reading(metrics(120, errors=3), 12.0), reading(metrics(100), 10.0))
    lines = [line.split() for line in text.splitlines()]
    assert ["gate", "1.0", "abc", "at", "127.0.0.1:9090", "ready"] in lines
    assert ["provider", "degraded", "away"] in lines
    assert ["wiki", "10.0", "1.5", "5.0", "10", "3", "1/2"] in lines


def test_unresponsive_gate_is_named() -> None:
    silent = Reading("127.0.0.1:1", 1.0, trouble="no response from 127.0.0.1:1: refused")
    assert render(silent, silent).splitlines()[0] == "no response from 127.0.0.1:1: refused"


def test_gate_response_is_plain_text_without_markup() -> None:
    body = json.dumps({"ready": False, "components": {"[red]part[/]": {"state": "failing", "reason": "[/nothing] is [bold]"}}})
    found = reading("", 1.0, body, status=503)
    text = render(found, found)
    assert "[red]part[/]" in text
    assert "[/nothing] is [bold]" in text
    assert "not ready" in text


def test_the_busiest_of_many_routes_are_displayed() -> None:
    many = "".join(metrics(number, route=f"route-{number:02}") for number in range(MAX_ROUTES + 5))
    text = render(reading(many, 2.0), reading("", 1.0))
    assert "route-24" in text
    assert "route-04" not in text
    assert "5 more routes" in text


def test_rejected_configuration_is_exported() -> None:
    loaded = "gate_config_last_reload_success_timestamp 1700000000\ngate_config_last_reload_success 0\n"
    found = reading(loaded, 1.0)
    assert "configuration of 2023-11-14T22:13:20Z, a newer one was rejected" in render(found, found)


def test_listeners_certificates_and_addresses_are_those_of_the_configuration(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "auth.example.com")
    pair = {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    route = {"name": "wiki", "from": "https://wiki.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
    options = make_options(tmp_path, address=f"127.0.0.1:{free_port()}", policy=[route], **pair)
    text = render(reading(metrics(5), 2.0), reading(metrics(5), 1.0), options)
    assert f"address   {options.address}  closed" in text
    assert "https://wiki.example.com" in text
    (line,) = (line for line in text.splitlines() if line.startswith("auth.example.com"))
    assert " in " in line


def test_a_route_keeps_one_line_and_a_name_at_80_columns(tmp_path: Path) -> None:
    host = "a-host-of-many-letters.applications.example.com"
    route = {"from": f"https://{host}", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True, "title": "Wiki"}
    options = make_options(tmp_path, policy=[route])
    found = reading(metrics(120, route=options.policy[0].id), 2.0)
    text = render(found, found, options, width=80)
    assert options.policy[0].id not in text
    (line,) = (line for line in text.splitlines() if line.startswith("Wiki"))
    assert "https://" in line
    assert line.rstrip().endswith("…")


def test_certificates_of_autocert_come_from_its_metrics() -> None:
    found = reading('gate_certificate_expiry_timestamp{name="a.example.com"} 1\n', 1.0)
    assert "1970-01-01T00:00:01Z expired" in render(found, found)
