"""`gate tunnel` and `gate token` as a user starts them: sign-in by browser or device code, a real Redis, standard streams for ssh."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from tests.support.browser import Browser, headless_browser
from tests.support.children import ROOT, Child, clean_environment, wait_until
from tests.support.consent import allow_device, device_code_of
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import PATIENCE, eventually_equal
from tests.support.fork_server import python
from tests.support.gate import GateBuilder, RunningGate
from tests.support.redis_server import RedisServer
from tests.support.tunnels import obtain_token
from tests.support.upstream import SampleUpstream, TcpUpstream

REDIS, ECHO, APP = "redis.localhost:6379", "redis.localhost:7", "app.localhost"


@dataclass
class Stage:
    gate: RunningGate
    provider: DevelopmentProvider
    home: Path

    @property
    def tokens(self) -> list[Path]:
        return list(self.home.glob(".cache/gate/tokens/*.json"))

    @property
    def gate_options(self) -> tuple[str, ...]:
        return ("--url", self.gate.url("redis.localhost", ""), "--ca", str(self.gate.certificates.authority))

    def command(self, destination: str, *more: str) -> tuple[str, ...]:
        return ("manage.py", "tunnel", destination, *self.gate_options, *more)

    def token(self, *more: str) -> Child:
        """Start `gate token` for the pages of a route."""
        options = ("--ca", str(self.gate.certificates.authority), *more)
        return python("manage.py", "token", self.gate.url(APP, "/a/b"), *options, environment=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(HOME=str(self.home), XDG_CACHE_HOME="", BROWSER=f"{self.home}/browser %s")

    def child(self, destination: str, *more: str) -> Child:
        return python(*self.command(destination, *more), environment=self.environment)

    def run(self, destination: str, *more: str, report: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = (sys.executable, *self.command(destination, "--listen", "-", *more))
        return subprocess.run(command, input=report, capture_output=True, cwd=ROOT, env=self.environment, timeout=60, check=False)


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def stage(request: pytest.FixtureRequest, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("home")
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {home}/opened\n')
    browser.chmod(0o755)
    with DevelopmentProvider() as provider, RedisServer(tmp_path_factory.mktemp("redis")) as server, TcpUpstream(is_echo=True) as echo:
        builder = GateBuilder(provider.url).setting(groups_claim="groups", data_plane=request.param)
        builder.route(APP, to=upstream.url, allow_any_authenticated_user=True)
        builder.policy += [
            {"from": f"tcp+https://{REDIS}", "to": f"tcp://localhost:{server.port}", "allowed_groups": ["engineering"]},
            {"from": f"tcp+https://{ECHO}", "to": echo.url, "allow_any_authenticated_user": True},
        ]
        with builder.start(tmp_path_factory.mktemp("gate")) as gate:
            yield Stage(gate, provider, home)


def opened(stage: Stage) -> list[str]:
    file = stage.home / "opened"
    return file.read_text().split() if file.exists() else []


def allow_in_browser(browser: Browser, stage: Stage, url: str, decision: str = "allow") -> None:
    """Sign in as alice if the provider asks for it, and decide on the consent page."""
    browser.open(url)
    while not browser.url.startswith("http://127.0.0.1:"):
        is_provider = browser.url.startswith(stage.provider.url)
        if not is_provider:
            assert "gate command line" in browser.text
            browser.picture("tunnel-consent")
        browser.submit('button[value="alice"]' if is_provider else f'button[value="{decision}"]')
    browser.picture("tunnel-signed-in")


def port_of(child: Child) -> int:
    return int(child.wait_for_line("listening on").split(" for ")[0].rpartition(":")[2])


def test_sign_in_once_per_session(stage: Stage, tmp_path: Path) -> None:
    with stage.child(REDIS) as child, headless_browser(tmp_path, trusted_spki=stage.gate.certificates.spki_hash) as browser:
        port, before = port_of(child), len(opened(stage))
        answers: list[object] = []

        def ask() -> None:
            with redis.Redis(port=port, socket_timeout=60, protocol=2) as client:
                answers.append(client.echo("through gate"))

        both = [threading.Thread(target=ask) for _ in range(2)]
        for thread in both:
            thread.start()
        wait_until(lambda: len(opened(stage)) > before, "the browser is led to the sign-in")
        allow_in_browser(browser, stage, opened(stage)[-1])
        assert "The sign-in is complete" in browser.text
        for thread in both:
            thread.join(30)
        assert answers == [b"through gate"] * 2
        assert len(opened(stage)) == before + 1
        (stored,) = stage.tokens
        assert stat.S_IMODE(stored.stat().st_mode) == 0o600
        stored_token = json.loads(stored.read_text())
        for secret in (stored_token["access_token"], stored_token["refresh_token"]):
            assert secret not in child.output + stage.gate.child.output

        browser.open(stage.gate.url("authenticate.localhost", "/.gate/signout/"))
        browser.click("main form button[name=gate_everywhere]")
        browser.wait_for_url(stage.provider.url)
        again = threading.Thread(target=ask)
        again.start()
        wait_until(lambda: len(opened(stage)) > before + 1, "the user is asked again")
        allow_in_browser(browser, stage, opened(stage)[-1])
        again.join(30)
        assert len(answers) == 3


async def test_standard_streams_and_a_token_of_ones_own(stage: Stage) -> None:
    for user, destination, code in (("alice", ECHO, 0), ("bob", REDIS, 1)):
        async with stage.gate.client() as browser:
            token = stage.home / user
            token.write_text(await obtain_token(browser, stage.gate.url("redis.localhost", ""), user) + "\n")
        report = os.urandom(300_000)
        run = stage.run(destination, "--token-file", str(token), report=report)
        assert (run.returncode, run.stdout == report) == (code, code == 0), run.stderr
    assert b"refused: 403 Forbidden" in run.stderr
    assert b"Traceback" not in run.stderr
    anonymous = stage.home / "nobody"
    anonymous.write_text("nonsense")
    before = opened(stage)
    run = stage.run(ECHO, "--token-file", str(anonymous))
    assert (run.returncode, b"refused: 401" in run.stderr, opened(stage)) == (1, True, before)


def test_problem_is_one_line(stage: Stage) -> None:
    run = stage.run("redis.localhost:1")
    assert (run.returncode, b"refused: 404" in run.stderr, run.stderr.count(b"\n")) == (1, True, 1), run.stderr


async def test_token_for_pages_by_device_code(stage: Stage) -> None:
    before = opened(stage)
    with stage.token("--no-browser") as child:
        page_url, code = device_code_of(await asyncio.to_thread(child.wait_for_line, "enter the code"))
        async with stage.gate.client() as browser:
            await allow_device(browser, page_url, code, sub="alice")
        assert await asyncio.to_thread(child.ended, PATIENCE) == 0
        token = child.lines[-1]
    assert opened(stage) == before
    async with stage.gate.client() as program:

        async def status() -> int:
            return (await program.get(stage.gate.url(APP, "/"), headers={"Authorization": f"Bearer {token}"})).status_code

        assert await status() == 200
        with stage.token() as again:
            assert await asyncio.to_thread(again.ended, PATIENCE) == 0
            assert again.lines == [token]
        with stage.token("--revoke") as revoking:
            assert await asyncio.to_thread(revoking.ended, PATIENCE) == 0
        await eventually_equal(status, 401)


def test_denied_access_is_reported(stage: Stage, tmp_path: Path) -> None:
    before = len(opened(stage))
    with stage.token() as child, headless_browser(tmp_path, trusted_spki=stage.gate.certificates.spki_hash) as browser:
        wait_until(lambda: len(opened(stage)) > before, "the browser is led to the sign-in")
        allow_in_browser(browser, stage, opened(stage)[-1], "deny")
        assert "You are not signed in" in browser.text
        assert child.ended(PATIENCE) == 1
        assert "access was denied" in child.output
