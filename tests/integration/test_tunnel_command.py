"""`manage.py tunnel` as a person uses it: a real Redis behind a route, a browser to sign in with, and standard streams for ssh."""

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
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import python
from tests.support.gate import GateBuilder, RunningGate
from tests.support.redis_server import RedisServer
from tests.support.tunnels import obtain_token
from tests.support.upstream import TcpUpstream

REDIS, ECHO = "redis.localhost:6379", "redis.localhost:7"


@dataclass
class Stage:
    gate: RunningGate
    provider: DevelopmentProvider
    home: Path

    @property
    def tokens(self) -> list[Path]:
        return list(self.home.glob(".cache/gate/tunnel/*"))

    def command(self, destination: str, *more: str) -> tuple[str, ...]:
        url, authority = self.gate.url("redis.localhost", ""), str(self.gate.certificates.authority)
        return ("manage.py", "tunnel", destination, "--url", url, "--ca", authority, *more)

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(HOME=str(self.home), XDG_CACHE_HOME="", BROWSER=f"{self.home}/browser %s")

    def child(self, destination: str, *more: str) -> Child:
        return python(*self.command(destination, *more), environment=self.environment)

    def run(self, destination: str, *more: str, report: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = (sys.executable, *self.command(destination, "--listen", "-", *more))
        return subprocess.run(command, input=report, capture_output=True, cwd=ROOT, env=self.environment, timeout=60, check=False)


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("home")
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {home}/opened\n')
    browser.chmod(0o755)
    with DevelopmentProvider() as provider, RedisServer(tmp_path_factory.mktemp("redis")) as server, TcpUpstream(is_echo=True) as echo:
        builder = GateBuilder(provider.url).setting(groups_claim="groups", data_plane=request.param)
        builder.policy += [
            {"from": f"tcp+https://{REDIS}", "to": f"tcp://localhost:{server.port}", "allowed_groups": ["engineering"]},
            {"from": f"tcp+https://{ECHO}", "to": echo.url, "allow_any_authenticated_user": True},
        ]
        with builder.start(tmp_path_factory.mktemp("gate")) as gate:
            yield Stage(gate, provider, home)


def opened(stage: Stage) -> list[str]:
    file = stage.home / "opened"
    return file.read_text().split() if file.exists() else []


def agree(browser: Browser, stage: Stage, url: str) -> None:
    browser.open(url)
    if "/.gate/program" not in browser.url:
        browser.wait_for_url(stage.provider.url)
        browser.click('button[value="alice"]')
    browser.wait_for_url(stage.gate.url("authenticate.localhost", "/.gate/program"))
    assert f"redis.localhost:{stage.gate.port}" in browser.text
    browser.click("main form button")
    browser.wait_for_url("http://127.0.0.1:")
    assert "You are signed in" in browser.text


def port_of(child: Child) -> int:
    return int(child.wait_for_line("listening on").split(" for ")[0].rpartition(":")[2])


def test_sign_in_once_per_session(stage: Stage, tmp_path: Path) -> None:
    with stage.child(REDIS) as child, headless_browser(tmp_path, trusted_spki=stage.gate.certificates.spki_hash) as browser:
        port = port_of(child)
        assert opened(stage) == []
        answers: list[object] = []

        def ask() -> None:
            with redis.Redis(port=port, socket_timeout=60, protocol=2) as client:
                answers.append(client.echo("through gate"))

        both = [threading.Thread(target=ask) for _ in range(2)]
        for thread in both:
            thread.start()
        wait_until(lambda: len(opened(stage)) == 1, "the browser is led to the sign-in")
        agree(browser, stage, opened(stage)[0])
        for thread in both:
            thread.join(30)
        assert answers == [b"through gate"] * 2
        assert len(opened(stage)) == 1
        (stored,) = stage.tokens
        assert stat.S_IMODE(stored.stat().st_mode) == 0o600
        assert stored.read_text() not in child.output + stage.gate.child.output

        browser.open(stage.gate.url("authenticate.localhost", "/.gate/signout/"))
        browser.click("main form button")
        browser.wait_for_url(stage.provider.url)
        again = threading.Thread(target=ask)
        again.start()
        wait_until(lambda: len(opened(stage)) == 2, "the person is asked again")
        agree(browser, stage, opened(stage)[1])
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
