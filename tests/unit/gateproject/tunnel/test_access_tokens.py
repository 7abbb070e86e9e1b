"""A token is refreshed before it expires, once for all commands, and a refusal leads to one sign-in."""

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gateproject.tunnel.access_tokens import AccessTokens
from gateproject.tunnel.oauth_client import discover
from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.token_file import StoredToken, TokenFile, cache_directory
from tests.support.children import ROOT, clean_environment
from tests.support.fake_gate import TUNNEL, FakeGate

EXPIRED, SOON, LATER = -10.0, 30.0, 600.0


class Stage:
    def __init__(self, gate: FakeGate, home: Path):
        self.gate, self.environment, self.sign_ins = gate, clean_environment(XDG_CACHE_HOME=str(home)), 0
        self.file = TokenFile(cache_directory(self.environment) / "tokens", TUNNEL, gate.url)
        self.tokens = AccessTokens(self.file, lambda: discover(gate.gate, TUNNEL), self._sign_in, lambda message: None)

    async def _sign_in(self, server) -> StoredToken:
        self.sign_ins += 1
        self.gate.device = "a"
        await asyncio.sleep(0.05)
        return await server.request_tokens("device", device_code="a")

    async def store(self, seconds: float, **changed: str) -> StoredToken:
        """Sign in, and let the access token expire in `seconds`."""
        await self.tokens.replace("")
        stored = replace(self.file.read(), expires_at=time.time() + seconds, **changed)
        self.file.write(stored)
        self.sign_ins = 0
        return stored

    def start(self) -> subprocess.Popen[bytes]:
        command = ("manage.py", "token", str(TUNNEL), "--url", str(self.gate.url), "--ca", str(self.gate.authority))
        return subprocess.Popen([sys.executable, *command], cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def stage(tmp_path):
    with FakeGate(tmp_path) as gate:
        yield Stage(gate, tmp_path / "home")


async def test_nothing_stored_requires_a_sign_in_that_is_stored(stage):
    assert await stage.tokens.find() == ""
    assert await stage.tokens.replace("") == "access-1"
    assert await stage.tokens.find() == "access-1"
    assert stage.sign_ins == 1


@pytest.mark.parametrize(("seconds", "token", "refreshes"), [(LATER, "access-1", 0), (SOON, "access-2", 1), (EXPIRED, "access-2", 1)])
async def test_token_is_refreshed_before_it_expires(stage, seconds: float, token: str, refreshes: int):
    await stage.store(seconds)
    assert await asyncio.gather(*(stage.tokens.find() for _ in range(3))) == [token] * 3
    assert (stage.gate.count("refresh_token"), stage.sign_ins) == (refreshes, 0)
    assert stage.file.read().refresh_token == token.replace("access", "refresh")


async def test_two_processes_refresh_once(stage):
    await stage.store(EXPIRED)
    async with stage.file.locked(lambda message: None):
        both = [stage.start() for _ in range(2)]
        # Both wait for the lock, which they say.
        for process in both:
            assert b"waiting for another" in await asyncio.to_thread(process.stderr.readline)
    outputs = [(await asyncio.to_thread(process.communicate))[0] for process in both]
    assert [output.decode().strip() for output in outputs] == ["access-2"] * 2
    assert stage.gate.count("refresh_token") == 1


async def test_lock_of_a_killed_process_is_free(stage):
    await stage.store(EXPIRED)
    async with stage.file.locked(lambda message: None):
        process = stage.start()
        await asyncio.to_thread(process.stderr.readline)
        process.kill()
        process.communicate()
    assert await stage.tokens.find() == "access-2"


async def test_crash_after_the_response_costs_one_sign_in(stage):
    stored = await stage.store(EXPIRED)
    await stage.tokens.find()
    stage.file.write(stored)  # as if the new tokens were not written
    assert await stage.tokens.find() == ""
    assert stage.file.read() is None
    token = await stage.tokens.replace("")
    assert (await stage.tokens.find(), stage.sign_ins) == (token, 1)


@pytest.mark.parametrize("changed", [{"refresh_token": ""}, {"issuer": "https://old.localhost"}])
async def test_refresh_token_of_another_server_is_not_sent(stage, changed):
    await stage.store(EXPIRED, **changed)
    assert await stage.tokens.find() == ""
    assert stage.gate.count("refresh_token") == 0


async def test_unavailable_server_costs_no_sign_in(stage):
    stored = await stage.store(EXPIRED)
    stage.gate.failing["refresh_token"] = "temporarily_unavailable"
    with pytest.raises(TunnelError, match="temporarily_unavailable"):
        await stage.tokens.find()
    assert stage.file.read() == stored
    stage.gate.failing.clear()
    assert await stage.tokens.find() == "access-2"


async def test_refresh_without_a_new_refresh_token_keeps_the_old_one(stage):
    await stage.store(EXPIRED)
    stage.gate.changed["/token"] = {"refresh_token": None}
    assert await stage.tokens.find() == "access-2"
    assert stage.file.read().refresh_token == "refresh-1"


async def test_refused_token_is_replaced_once(stage):
    refused = (await stage.store(LATER)).access_token
    tokens = await asyncio.gather(*(stage.tokens.replace(refused) for _ in range(3)))
    assert (set(tokens), stage.sign_ins) == ({"access-2"}, 1)


async def test_expired_token_is_no_replacement(stage):
    await stage.store(EXPIRED)
    assert (await stage.tokens.replace("refused"), stage.sign_ins) == ("access-2", 1)


async def test_token_that_another_command_revokes_requires_a_sign_in(stage):
    await stage.store(EXPIRED)
    async with stage.file.locked(lambda message: None):
        finding = asyncio.ensure_future(stage.tokens.find())
        await asyncio.sleep(0)
        stage.file.forget()
    assert await finding == ""


async def test_file_of_others_is_replaced(stage):
    await stage.store(LATER)
    stage.file.path.chmod(0o644)
    assert await stage.tokens.find() == ""
    assert await stage.tokens.replace("") == "access-2"
    assert stage.file.path.stat().st_mode & 0o777 == 0o600


async def test_revoked_token_is_forgotten(stage):
    assert not await stage.tokens.revoke()
    await stage.store(LATER)
    assert await stage.tokens.revoke()
    assert (stage.file.read(), stage.gate.valid_tokens, stage.gate.forms[-1]["token"]) == (None, set(), "refresh-1")


async def test_token_that_cannot_be_revoked_stays(stage):
    stored = await stage.store(LATER)
    stage.gate.failing["/revoke"] = "temporarily_unavailable"
    with pytest.raises(TunnelError, match="temporarily_unavailable"):
        await stage.tokens.revoke()
    assert stage.file.read() == stored


async def test_token_of_another_server_is_forgotten_without_sending_it(stage):
    await stage.store(LATER, issuer="https://old.localhost")
    assert await stage.tokens.revoke()
    assert "/revoke" not in "".join(head.decode() for head in stage.gate.heads)
    assert stage.file.read() is None


async def test_denied_sign_in_stores_nothing(stage, monkeypatch):
    async def deny(server):
        raise TunnelError("denied")

    stage.tokens.sign_in = deny
    with pytest.raises(TunnelError, match="denied"):
        await stage.tokens.replace("")
    assert stage.file.read() is None
    assert os.listdir(stage.file.path.parent) == [stage.file.path.with_suffix(".lock").name]
