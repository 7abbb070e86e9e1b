"""Starting, stopping and reloading the product as an operator does."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.children import free_port
from tests.support.eventually import PATIENCE
from tests.support.fork_server import python
from tests.support.options import MINIMAL
from tests.support.upstream import Exchange, RawUpstream, SampleUpstream


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


def test_valid_configuration_passes_check(tmp_path: Path) -> None:
    with python("manage.py", "checkconfig", "--config", plain(tmp_path)) as child:
        assert child.process.wait(20) == 0


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
    started, may_end = asyncio.Event(), asyncio.Event()

    async def slow(conversation: Exchange) -> None:
        await conversation.request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfir")
        started.set()
        await may_end.wait()
        await conversation.send(b"st!")

    async with RawUpstream(script=slow) as canary:
        port = free_port()
        route = {"from": "https://app.example.com", "to": canary.url, "allow_public_unauthenticated_access": True}
        with python("manage.py", "rungate", "-config", plain(tmp_path, address=f"127.0.0.1:{port}", policy=[route])) as child:
            child.wait_for_line("gate is ready")
            async with httpx.AsyncClient(trust_env=False) as client:
                requested = asyncio.ensure_future(client.get(f"http://127.0.0.1:{port}/", headers={"Host": "app.example.com"}))
                await asyncio.wait_for(started.wait(), PATIENCE)
                child.process.send_signal(number)
                await asyncio.sleep(0.05)
                may_end.set()
                assert (await asyncio.wait_for(requested, PATIENCE)).text == "first!"
            assert await asyncio.to_thread(child.process.wait, 15) == 0
        assert "gate stopped" in child.output
        assert "Traceback" not in child.output


@pytest.mark.parametrize("setting", ["address", "metrics_address"])
def test_a_taken_port_is_a_clear_error(tmp_path: Path, upstream: SampleUpstream, setting: str) -> None:
    settings = {"address": f"127.0.0.1:{free_port()}", setting: upstream.url.removeprefix("http://")}
    with python("manage.py", "rungate", "-config", plain(tmp_path, **settings)) as child:
        assert child.process.wait(20) == 1
    assert "startup failed" in child.output
    assert "can't listen on" in child.output
    assert "Traceback" not in child.output
