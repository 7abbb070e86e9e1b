"""Under a third-party ASGI server gate starts with it, logs missing features once, and serves nothing if it cannot start."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from foundation.errors import ConfigError, Problem
from gateproject.process.third_party_server import ThirdPartyServer, ignored_settings
from tests.support.certs import certificate_files
from tests.support.options import make_options
from tests.unit.proxy.third_party_asgi.test_http_adapter import END, START
from tests.unit.proxy.third_party_asgi.test_strict_scope import HTTP, WEBSOCKET

Message = dict[str, Any]


class RuntimeStub:
    def __init__(self, directory: Path, *, is_port_taken: bool = False, **settings: Any):
        self.options = make_options(directory, **settings)
        self.is_port_taken = is_port_taken
        self.calls: list[str] = []

    def open_grpc(self) -> None:
        if self.is_port_taken:
            raise ConfigError([Problem("grpc_address", "can't listen on 127.0.0.1:5443: address already in use")])
        self.calls.append("gRPC")

    def start_without_listener(self) -> None:
        self.calls.append("begin")

    def announce_ready(self) -> None:
        self.calls.append("ready")

    async def stop(self) -> None:
        self.calls.append("stop")


async def application(scope: Message, receive: Any, send: Any) -> None:
    await send(START)
    await send(END)


def served(runtime: Any) -> ThirdPartyServer:
    return ThirdPartyServer(runtime, application, lambda *facts: None)


async def response_messages(server: ThirdPartyServer) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await server.serve_http(HTTP, lambda: None, send)  # type: ignore[arg-type,return-value]
    return sent


async def lived(server: ThirdPartyServer, *messages: str) -> list[Message]:
    sent, left = [], list(messages)

    async def receive() -> Message:
        return {"type": left.pop(0)}

    async def send(message: Message) -> None:
        sent.append(message)

    await server.serve_lifespan({"type": "lifespan"}, receive, send)
    return sent


async def test_it_begins_and_ends_with_its_server(tmp_path: Path) -> None:
    runtime = RuntimeStub(tmp_path)
    server = served(runtime)
    with capture_logs() as logs:
        messages = await lived(server, "lifespan.startup", "lifespan.shutdown")
        assert (await response_messages(server))[0]["status"] == 200
    assert [message["type"] for message in messages] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert runtime.calls == ["gRPC", "begin", "ready", "stop"]
    (line,) = logs
    assert "third-party ASGI server" in line["event"]


async def test_without_lifespan_it_begins_with_the_first_request(tmp_path: Path) -> None:
    runtime = RuntimeStub(tmp_path)
    server = served(runtime)
    assert runtime.calls == []
    for _ in range(2):
        assert (await response_messages(server))[0]["status"] == 200
    assert runtime.calls == ["gRPC", "begin", "ready"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"is_port_taken": True}, "grpc_address: can't listen"),
        ({"data_plane": "envoy"}, "data_plane: requires `gate run`"),
    ],
)
async def test_failed_start_accepts_no_connections(tmp_path: Path, more: Message, problem: str) -> None:
    (failed,) = await lived(served(RuntimeStub(tmp_path, **more)), "lifespan.startup")
    assert failed["type"] == "lifespan.startup.failed"
    assert problem in failed["message"]
    server = served(RuntimeStub(tmp_path, **more))
    with capture_logs() as logs:
        for _ in range(2):
            assert (await response_messages(server))[0]["status"] == 503
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        await server.serve_websocket(WEBSOCKET, lambda: None, send)  # type: ignore[arg-type,return-value]
    assert sent == [{"type": "websocket.close"}]
    assert [line["problem"] for line in logs if problem in line["problem"]] == [logs[0]["problem"]], "said once"


def test_listener_settings_are_named_where_they_are_set(tmp_path: Path) -> None:
    assert ignored_settings(make_options(tmp_path)) == []
    options = make_options(tmp_path, timeout_write="5s", metrics_address="127.0.0.1:9", use_proxy_protocol=False)
    assert ignored_settings(options) == ["timeout_write", "metrics_address"]


def test_certificates_have_an_effect_where_grpc_shows_them(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "app.example.com")
    tls = {"certificate_file": str(files.certificate), "certificate_key_file": str(files.key), "insecure_server": None}
    for is_plain in (True, False):
        options = make_options(tmp_path, **tls, grpc_address="127.0.0.1:5443", grpc_insecure=is_plain)
        assert ignored_settings(options) == (["certificate_file"] if is_plain else [])
