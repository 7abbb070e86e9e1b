"""`daphne gateproject.asgi:application` as an operator runs it: its endpoints, its options, and what else gate opens beside them."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.integration.test_directory import syncdirectory
from tests.support.asgi_servers import APPLICATION, TLS_ELSEWHERE, daphne, daphne_with_configured_tls
from tests.support.browser import headless_browser
from tests.support.children import Child, clean_environment, free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually_equal
from tests.support.fake_directories import ByName
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, FakeIdP
from tests.support.fork_server import python
from tests.support.gate import HTML, EverythingOnLoopback, GateBuilder, RunningGate, ServerCommand, follow, led_to, sign_in, status_or_cut
from tests.support.options import MINIMAL
from tests.support.postgresql import PostgresServer
from tests.support.raw_http import RawClient
from tests.support.redis_server import RedisServer
from tests.support.split import Split
from tests.support.upstream import Exchange, RawUpstream, SampleUpstream

APP, PUBLIC, ADMIN = "app.localhost", "public.localhost", "authenticate.localhost"
COMMANDS: dict[str, tuple[ServerCommand, dict[str, Any]]] = {
    "TLS of the endpoint": (daphne, TLS_ELSEWHERE),
    "TLS of the configuration": (daphne_with_configured_tls, {}),
}


@pytest.fixture(scope="module", params=COMMANDS)
def gate(
    request: pytest.FixtureRequest, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGate]:
    command, settings = COMMANDS[request.param]
    builder = GateBuilder(provider.url).route(APP, to=upstream.url, allow_any_authenticated_user=True)
    builder.route(PUBLIC, to=upstream.url, allow_public_unauthenticated_access=True)
    builder.setting(metrics_address=f"127.0.0.1:{free_port()}", http_redirect_addr=f"127.0.0.1:{free_port()}", **settings)
    with builder.start(tmp_path_factory.mktemp("daphne"), command) as running:
        yield running


@pytest.mark.parametrize("offered", [[], ["http/1.1"], ["h2", "http/1.1"]], ids=["no ALPN", "h1", "h2 and h1"])
def test_clients_are_served_with_any_offer(gate: RunningGate, offered: list[str]) -> None:
    context = gate.certificates.client_context()
    if offered:
        context.set_alpn_protocols(offered)
    with RawClient(gate.port, tls=context, server_name=PUBLIC) as client:
        tls = client.socket
        assert isinstance(tls, ssl.SSLSocket)
        assert tls.selected_alpn_protocol() == ("http/1.1" if offered else None)
        for _ in range(2):
            client.send(f"GET /a HTTP/1.1\r\nHost: {PUBLIC}:{gate.port}\r\n\r\n".encode())
            assert client.response().status == 200


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl_is_served(gate: RunningGate, version: str) -> None:
    resolve = f"{PUBLIC}:{gate.port}:127.0.0.1"
    command = ["curl", "-sS", version, "--noproxy", "*", "--cacert", str(gate.certificates.authority), "--resolve", resolve]
    done = subprocess.run([*command, gate.url(PUBLIC, "/by-curl")], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"] == "/by-curl"


async def test_sign_in_persists(gate: RunningGate) -> None:
    async with gate.client() as client:
        assert (await sign_in(client, gate.url(APP), "alice")).status_code == 200
        assert (await client.get(gate.url(APP, "/again"))).json()["target"] == "/again"


def test_sign_in_with_a_browser(gate: RunningGate, tmp_path: Path) -> None:
    with headless_browser(tmp_path / "profile", trusted_spki=gate.certificates.spki_hash) as browser:
        browser.open(gate.url(APP, "/in-a-browser"))
        browser.click('button[value="alice"]')
        browser.wait_for_url(gate.url(APP, "/in-a-browser"))
        assert "/in-a-browser" in browser.text


def test_daphne_opens_the_other_listeners(gate: RunningGate) -> None:
    settings = gate.builder.settings
    assert "gate_" in httpx.get(f"http://{settings['metrics_address']}/metrics", trust_env=False).text
    host = {"Host": f"{PUBLIC}:{gate.port}"}
    led = httpx.get(f"http://{settings['http_redirect_addr']}/x", headers=host, trust_env=False)
    assert (led.status_code, led.headers["location"]) == (301, f"https://{PUBLIC}/x")
    gate.wait_for_event("gate is ready")
    gate.wait_for_event("listening", lambda entry: entry["address"] == f"127.0.0.1:{gate.port}" and entry["tls"] is True)


async def answered(port: int | str, host: str) -> dict[str, Any]:
    """The request headers that the application behind gate received."""
    transport = httpx.AsyncHTTPTransport(uds=port) if isinstance(port, str) else httpx.AsyncHTTPTransport()
    url = f"http://127.0.0.1:{port}/" if isinstance(port, int) else "http://gate/"
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        response = await client.get(url, headers={"Host": host, "X-Forwarded-For": "192.0.2.7"})
        assert response.status_code == 200, response.text
        return dict(response.json()["headers"])


def configured(directory: Path, upstream: str, **settings: Any) -> dict[str, str]:
    """The environment of a command with one public route at app.example.com."""
    route = {"from": "https://app.example.com", "to": upstream, "allow_public_unauthenticated_access": True}
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, "data_dir": str(directory / "data"), "policy": [route], **settings}))
    return clean_environment(GATE_CONFIG=str(path))


async def test_a_unix_socket(tmp_path: Path, upstream: SampleUpstream) -> None:
    name = str(tmp_path / "gate.sock")
    with python("-m", "daphne", "-u", name, APPLICATION, environment=configured(tmp_path, upstream.url)) as child:
        child.wait_for_line("gate is ready")
        received = await answered(name, "app.example.com")
        assert "x-forwarded-for" not in received, "gate trusts no sender of the header, and a Unix socket has no address"
        assert child.stop() == 0
        assert "Traceback" not in child.output
    assert not os.path.exists(name)


PASS_A_SOCKET = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
os.set_inheritable(listener.fileno(), True)
os.execv(sys.executable, [sys.executable, "-m", "daphne", "--fd", str(listener.fileno()), sys.argv[2]])
"""


async def test_inherited_socket_and_trusted_proxy(tmp_path: Path, upstream: SampleUpstream) -> None:
    port, environment = free_port(), configured(tmp_path, upstream.url, trusted_proxies=["127.0.0.0/8"])
    with Child.python("-c", PASS_A_SOCKET, str(port), APPLICATION, environment=environment) as child:
        child.wait_for_line("gate is ready")
        assert (await answered(port, "app.example.com"))["x-forwarded-for"] == "192.0.2.7, 127.0.0.1"
        child.wait_for(lambda: any(entry.get("client_address") == "192.0.2.7" for entry in child.events), "the log names the client")


async def test_response_timeout_from_command_option(tmp_path: Path) -> None:
    async def never(conversation: Exchange) -> None:
        await conversation.request()
        await asyncio.Event().wait()

    port = free_port()
    async with RawUpstream(script=never) as canary:
        command = ("-m", "daphne", "-p", str(port), "--http-timeout", "1", APPLICATION)
        with python(*command, environment=configured(tmp_path, canary.url)) as child:
            child.wait_for_line("gate is ready")
            async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
                response = await client.get(f"http://127.0.0.1:{port}/", headers={"Host": "app.example.com"})
            assert (response.status_code, "took too long" in response.text) == (503, True)


NOT_STARTED = {
    "an option without effect": (["--ping-interval", "7"], {}, "--ping-interval has no effect here"),
    "believing everybody": (["--proxy-headers"], {}, "no effect without `trusted_proxies`"),
    "two bounds of an answer": (["-t", "5"], {"timeout_write": "7s"}, "conflicts with timeout_write"),
    "Envoy": ([], {"data_plane": "envoy"}, "data_plane: requires `gate run`"),
    "no service for people": (
        [],
        {"services": "databroker", "grpc_insecure": True, "grpc_address": "127.0.0.1:5443"},
        "services: databroker serves gRPC only",
    ),
    "a broken configuration": ([], {"log_level": "loud"}, "log_level"),
}


@pytest.mark.parametrize("name", NOT_STARTED)
def test_unservable_configuration_starts_nothing(name: str, tmp_path: Path) -> None:
    options, settings, report = NOT_STARTED[name]
    environment = configured(tmp_path, "http://127.0.0.1:9", **settings)
    with python("-m", "daphne", "-p", str(free_port()), *options, APPLICATION, environment=environment) as child:
        assert child.ended(30) == 1
    (line,) = [line for line in child.lines if report in line]
    assert "Traceback" not in child.output
    assert "listening" not in child.output
    if settings.get("log_level") is None:
        assert line.startswith("startup failed: ")


@pytest.mark.parametrize("setting", [None, "metrics_address", "grpc_address", "http_redirect_addr"])
def test_port_in_use_is_one_line(setting: str | None, tmp_path: Path, upstream: SampleUpstream) -> None:
    taken = upstream.url.removeprefix("http://")
    environment = configured(tmp_path, upstream.url, **({setting: taken} if setting else {}))
    port = str(free_port()) if setting else taken.rpartition(":")[2]
    with python("-m", "daphne", "-p", port, APPLICATION, environment=environment) as child:
        assert child.ended(30) == 1
    (line,) = [line for line in child.lines if line.startswith("startup failed: ")]
    assert "can't listen on" in line
    assert (setting or "tcp:") in line
    assert "Traceback" not in child.output


@pytest.fixture(params=["memory", "redis", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    match request.param:
        case "redis":
            with RedisServer(tmp_path / "redis") as redis:
                yield {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": redis.url}
        case "postgresql":
            with PostgresServer() as postgresql:
                yield {"databroker_storage_type": "database", "database_url": postgresql.url}
        case "sqlite":
            yield {"databroker_storage_type": "database"}
        case _:
            yield {}


async def test_the_admin_and_syncdirectory_see_the_records_that_daphne_serves(
    store: dict[str, Any], directory: ByName, idp: FakeIdP, upstream: SampleUpstream, tmp_path: Path
) -> None:
    directory.company.users["alice"] = ("Alice Adams", "alice@corp.example")
    directory.company.members["engineering"].append("alice")
    builder = GateBuilder(idp.issuer).route(APP, to=upstream.url, allowed_groups=[directory.group_id("engineering")])
    builder.setting(**{**directory.settings(), "idp_provider_url": idp.issuer}, grpc_address=f"127.0.0.1:{free_port()}", **store)
    builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, admin_allowed_users=["alice@corp.example"], **TLS_ELSEWHERE)
    gate = await asyncio.to_thread(builder.start, tmp_path, daphne)
    try:
        await asyncio.to_thread(gate.child.wait_for_line, '"directory sync completed"')
        async with gate.client() as client:
            offered = await led_to(client, gate.url(APP), idp.issuer)
            callback = idp.pick(offered, "alice")
            assert (await follow(client, await client.get(callback, headers=HTML))).status_code == 200

            directory.company.members["engineering"].remove("alice")
            directory.changed["engineering"] = "2026-05-05T00:00:00.000Z"
            status, report = await syncdirectory(gate)
            assert status == 0, report
            assert f"~ user okta/alice: removed from {directory.group_id('engineering')}" in report
            await eventually_equal(lambda: status_or_cut(client, gate.url(APP), headers=HTML), 403)

            readings = gate.url(ADMIN, "/.gate/admin/databroker/directoryrun/")
            async with asyncio.timeout(20):  # the table comes after the records
                while "syncdirectory" not in (page := await follow(client, await client.get(readings, headers=HTML))).text:
                    assert page.status_code == 200
                    await asyncio.sleep(0.02)
    finally:
        await asyncio.to_thread(gate.child.__exit__)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_clean(number: signal.Signals, tmp_path: Path, upstream: SampleUpstream) -> None:
    port = free_port()
    with python("-m", "daphne", "-p", str(port), APPLICATION, environment=configured(tmp_path, upstream.url)) as child:
        child.wait_for_line("gate is ready")
        assert child.stop(number) == 0
    assert "gate stopped" in child.output
    assert "Traceback" not in child.output


class SplitUnderDaphne(Split):
    """One of each service; what people reach is served by daphne."""

    def run(self, services: str, config_file: Path) -> Child:
        if services in ("databroker", "authorize"):
            return super().run(services, config_file)
        command = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(self.ports[services]), APPLICATION)
        return python(*command, environment=clean_environment(GATE_CONFIG=str(config_file)))

    @staticmethod
    def instances() -> Iterator[tuple[str, int]]:
        yield from ((services, 0) for services in ("databroker", "authorize", "authenticate", "proxy"))


async def test_http_services_under_daphne(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    policy = [{"prefix": "/", "to": upstream.url, "allowed_groups": ["engineering"]}]
    with (
        RedisServer(tmp_path / "redis") as redis,
        PostgresServer() as postgresql,
        SplitUnderDaphne(tmp_path, provider.url, redis, policy, database_url=postgresql.url) as split,
    ):
        transport = EverythingOnLoopback(verify=split.certificates.client_context(), trust_env=False)
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await sign_in(client, split.url("/split"), "alice")).json()["target"] == "/split"
