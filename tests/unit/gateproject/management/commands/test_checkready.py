"""`checkready` with a socket that responds like /readyz; with a running gate: tests/contract/test_readiness.py."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.core.management.base import CommandError

from gateproject.management.commands.checkready import Command
from tests.support.children import free_port


@contextmanager
def answering(*statuses: int) -> Iterator[str]:
    """Address of a server that gives these statuses one after the other, and the last one ever after."""
    left = list(statuses)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = left.pop(0) if len(left) > 1 else left[0]
            body = b"ready\n" if status == 200 else b"not ready\ndata broker: failing: no word\n"
            self.send_response(status if self.path == "/readyz" else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def check(address: str, wait: float = 0.0) -> int:
    try:
        Command().handle(at=address, wait=wait, config=None)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_ready_is_0_and_the_text_is_printed(capsys):
    with answering(200) as address:
        assert check(address) == 0
    assert capsys.readouterr().out == "ready\n"


def test_not_ready_is_1_with_the_reasons(capsys):
    with answering(503) as address:
        assert check(address) == 1
    assert "data broker: failing: no word" in capsys.readouterr().out


def test_waits_for_the_configured_time(capsys):
    with answering(503, 503, 200) as address:
        assert check(address, wait=30.0) == 0
    assert capsys.readouterr().out == "ready\n"


def test_refused_connection_is_reported(capsys):
    address = f"127.0.0.1:{free_port()}"
    assert check(address) == 1
    assert f"no response from {address}" in capsys.readouterr().out


@pytest.mark.parametrize("address", ["nowhere", "localhost:http"])
def test_invalid_address_is_reported(address):
    with pytest.raises(CommandError, match=f"{address} is not HOST:PORT"):
        check(address)
