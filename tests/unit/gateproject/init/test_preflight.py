"""Problems of a first start are reported before it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from config.options import Options
from gateproject.init import preflight
from gateproject.management.monitoring_client import page
from tests.support.children import free_port
from tests.support.options import make_options


def options(directory: Path, port: int, **settings: str) -> Options:
    own = {"address": f"127.0.0.1:{port}", "authenticate_service_url": "https://authenticate.localhost", "grpc_address": ""}
    return make_options(directory, **{**own, **settings})


def notes(checked: Options) -> list[str]:
    return list(preflight.notes(checked, page))


def test_healthy_configuration_prints_nothing(tmp_path: Path) -> None:
    assert notes(options(tmp_path, free_port())) == []


@pytest.mark.parametrize("setting", ["address", "http_redirect_addr", "metrics_address", "grpc_address"])
def test_port_in_use_is_reported_with_command_to_find_process(tmp_path: Path, setting: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as taken:
        threading.Thread(target=taken.serve_forever, daemon=True).start()
        port = taken.server_port
        (note,) = notes(options(tmp_path, free_port(), **{setting: f"127.0.0.1:{port}"}))
        taken.shutdown()
    assert note.startswith(f"{setting}: ")
    assert f"127.0.0.1:{port}" in note
    assert f"`ss -ltnp 'sport = :{port}'`" in note


class Ready(BaseHTTPRequestHandler):
    """Readiness response of a running gate."""

    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()
        self.wfile.write(b'{"ready": false, "components": {"provider": {"state": "failing", "reason": "x"}}}')

    def log_message(self, *_: object) -> None:
        pass


def test_ports_of_a_gate_that_runs_with_this_configuration_are_no_trouble(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ready) as gate:
        threading.Thread(target=gate.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{gate.server_port}"
        (note,) = notes(options(tmp_path, gate.server_port, metrics_address=address))
        gate.shutdown()
    assert "already running" in note
    assert f"(metrics_address {address})" in note
    assert "`gate status`" in note


def test_other_errors_have_their_own_message(tmp_path: Path) -> None:
    elsewhere = options(tmp_path, 0, address="192.0.2.1:8443")
    (note,) = notes(elsewhere)
    assert note.startswith("address: can't listen on 192.0.2.1:8443: cannot assign requested address")


def test_a_host_without_an_address_is_named(tmp_path: Path) -> None:
    unknown = options(tmp_path, free_port(), authenticate_service_url="https://authenticate.invalid")
    (note,) = notes(unknown)
    assert note.startswith("authenticate.invalid ")
    assert "DNS record" in note
