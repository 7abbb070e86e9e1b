"""Starting, stopping and reloading the product as an operator does."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.children import clean_environment, free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import HTML, GateBuilder, RunningGate, sign_in
from tests.support.options import MINIMAL
from tests.support.prepared import python
from tests.support.upstream import CanaryUpstream, Conversation, SampleUpstream


def plain(directory: Path, **settings: object) -> Path:
    """A configuration without TLS; returns its file."""
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, "data_dir": str(directory / "data"), **settings}))
    return path


def test_a_broken_configuration_names_every_problem_and_starts_nothing(tmp_path: Path) -> None:
    policy = [{"from": "https://a.example.com/path", "to": "http://127.0.0.1:1"}, {"from": "https://b.example.com"}]
    path = plain(tmp_path, policy=policy, cookie_expire="soon", cookie_secret="short", cache_service_url="https://x.example")
    for command in (("manage.py", "rungate"), ("manage.py", "checkconfig")):
        with python(*command, "-config", path) as child:
            assert child.process.wait(20) == 1
        for key in ("policy[0].from", "policy[1]", "cookie_expire", "cookie_secret", "cache_service_url"):
            assert key in child.output
        assert "Traceback" not in child.output
        assert "short" not in child.output
    assert not (tmp_path / "data").exists()


def test_a_good_configuration_passes_the_check(tmp_path: Path) -> None:
    with python("manage.py", "checkconfig", "--config", plain(tmp_path)) as child:
        assert child.process.wait(20) == 0


def test_a_taken_port_is_a_clear_error(tmp_path: Path, upstream: SampleUpstream) -> None:
    path = plain(tmp_path, address=upstream.url.removeprefix("http://"))
    with python("manage.py", "rungate", "-config", path) as child:
        assert child.process.wait(20) == 1
    assert "can't listen on" in child.output
    assert "Traceback" not in child.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["rungate", "-version"],
        ["explainaccess", "--version"],
        ["checkconfig", "--version"],
        ["tunnel", "--version"],
        ["--version"],
        ["version"],
    ],
)
def test_the_version_is_printed(arguments: list[str]) -> None:
    with python("manage.py", *arguments) as child:
        assert child.process.wait(20) == 0
    assert child.output.startswith("v0.")
    assert len(child.output.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_lets_a_running_request_end(number: signal.Signals, tmp_path: Path) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(conversation: Conversation) -> None:
        await conversation.request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfir")
        begun.set()
        await may_end.wait()
        await conversation.send(b"st!")

    async with CanaryUpstream(script=slow) as canary:
        port = free_port()
        route = {"from": "https://app.example.com", "to": canary.url, "allow_public_unauthenticated_access": True}
        with python("manage.py", "rungate", "-config", plain(tmp_path, address=f"127.0.0.1:{port}", policy=[route])) as child:
            child.wait_for_line("gate is ready")
            async with httpx.AsyncClient(trust_env=False) as client:
                asked = asyncio.ensure_future(client.get(f"http://127.0.0.1:{port}/", headers={"Host": "app.example.com"}))
                await asyncio.wait_for(begun.wait(), 10)
                child.process.send_signal(number)
                await asyncio.sleep(0.05)
                may_end.set()
                assert (await asyncio.wait_for(asked, 10)).text == "first!"
            assert await asyncio.to_thread(child.process.wait, 15) == 0
        assert "gate stopped" in child.output
        assert "Traceback" not in child.output


def test_the_stock_server_runs_it_too(tmp_path: Path, upstream: SampleUpstream) -> None:
    route = {"from": "https://app.example.com", "to": upstream.url, "allow_public_unauthenticated_access": True}
    environment = clean_environment(GATE_CONFIG=str(plain(tmp_path, policy=[route])))
    port = str(free_port())
    with python("-m", "daphne", "-b", "127.0.0.1", "-p", port, "gateproject.asgi:application", environment=environment) as child:
        child.wait_for(lambda: _status(port, "app.example.com") == 200, "the application answers through daphne")
        assert _status(port, "auth.example.com", "/.gate/") == 302
        assert _status(port, "unknown.example.com") == 404
        assert child.stop() == 0
        assert sum("gate is ready" in line for line in child.lines) == 1
        assert "gate stopped" in child.output
        assert "Traceback" not in child.output


def _status(port: str, host: str, path: str = "/") -> int:
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", headers={"Host": host, **HTML}, trust_env=False).status_code
    except httpx.TransportError:
        return 0


@pytest.fixture
def reloadable(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path):
    builder = GateBuilder(provider.url).setting(groups_claim="groups")
    builder.route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    builder.route("second.localhost", to=upstream.url, allow_any_authenticated_user=True)
    with builder.start(tmp_path) as running:
        yield running


def rewrite(gate: RunningGate, **changes: object) -> None:
    config = yaml.safe_load(gate.config_file.read_text())
    new = gate.config_file.with_suffix(".new")
    new.write_text(yaml.safe_dump({**config, **changes}))
    new.replace(gate.config_file)


async def test_a_changed_policy_takes_over_and_sessions_live_on(reloadable: RunningGate) -> None:
    gate = reloadable
    policy = yaml.safe_load(gate.config_file.read_text())["policy"]
    async with gate.client() as client:
        assert (await sign_in(client, gate.url("app.localhost"), "bob")).status_code == 200
        stricter = [{"from": route["from"], "to": route["to"], "allowed_groups": ["engineering"]} for route in policy[:1]] + policy[1:]
        rewrite(gate, policy=stricter)
        gate.wait_for_event("configuration reloaded")
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 403
        rewrite(gate, policy=policy)
        gate.child.wait_for(lambda: sum(entry["event"] == "configuration reloaded" for entry in gate.log) == 2, "the second reload")
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 200


async def test_a_broken_file_keeps_the_last_good_one_and_says_what_is_wrong(reloadable: RunningGate) -> None:
    gate = reloadable
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        rewrite(gate, policy=[{"from": "https://broken.example/path"}], log_level="loud")
        gate.wait_for_event("configuration rejected", lambda entry: "policy[0].from" in entry["problem"])
        gate.wait_for_event("configuration rejected", lambda entry: "log_level" in entry["problem"])
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 200


async def test_what_needs_a_restart_says_so_and_the_rest_takes_over(reloadable: RunningGate) -> None:
    gate = reloadable
    rewrite(gate, address="127.0.0.1:1", data_dir="/nowhere", policy=[])
    entry = gate.wait_for_event("restart required")
    assert entry["settings"] == ["address", "data_dir", "database_url"]  # a file below data_dir
    gate.wait_for_event("configuration reloaded")
    async with gate.client() as client:
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 404


async def test_sighup_reloads_at_once_even_an_unchanged_file(reloadable: RunningGate) -> None:
    reloadable.child.process.send_signal(signal.SIGHUP)
    reloadable.wait_for_event("configuration reloaded")


async def test_a_stranger_can_not_fill_the_disk_through_our_pages(reloadable: RunningGate) -> None:
    """Django gathers a body whole before it knows whose it is, so it is cut before Django."""
    gate = reloadable
    async with gate.client() as client:
        for host in ("authenticate.localhost", "app.localhost"):
            try:
                status = (await client.post(gate.url(host, "/.gate/signout/"), content=b"x" * (4 << 20))).status_code
            except httpx.TransportError:
                continue  # cut while it was still sending
            assert status == 413
            assert (await client.post(gate.url(host, "/.gate/signout/"), content=b"x" * 60_000)).status_code != 413


def test_a_wrong_metrics_address_starts_nothing(tmp_path: Path, upstream: SampleUpstream) -> None:
    settings = {**MINIMAL, "data_dir": str(tmp_path / "data"), "address": f"127.0.0.1:{free_port()}", "grpc_address": ""}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**settings, "metrics_address": upstream.url.removeprefix("http://")}))
    with python("manage.py", "rungate", "-config", path) as child:
        assert child.process.wait(20) == 1
    assert "startup failed" in child.output
    assert "metrics_address: can't listen on" in child.output
    assert "Traceback" not in child.output
