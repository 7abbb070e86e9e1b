"""`gate explain --user` answers as the running gate does, and calls a user who is not recorded hypothetical."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import run
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.grants import give
from tests.support.upstream import SampleUpstream

HOSTS = ("anyone.localhost", "groups.localhost", "granted.localhost", "claims.localhost", "nobody.localhost")


@pytest.fixture
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path):
    builder = (
        GateBuilder(provider.url)
        .route("anyone.localhost", to=upstream.url, allow_any_authenticated_user=True)
        .route("groups.localhost", to=upstream.url, allowed_groups=["engineering"])
        .route("granted.localhost", to=upstream.url, name="granted", policy=[{"allow": {"granted": True}}])
        .route("claims.localhost", to=upstream.url, policy=[{"allow": {"claim/sub": "alice"}}])
        .route("nobody.localhost", to=upstream.url, allowed_users=["someone@else.example"])
        .setting(groups_claim="groups", grpc_address=f"127.0.0.1:{free_port()}")
    )
    with builder.start(tmp_path) as running:
        yield running


def explain(gate: RunningGate, host: str, *arguments: str) -> dict[str, Any]:
    done = run("manage.py", "explainaccess", gate.url(host), *arguments, "--json", "-config", gate.config_file)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


async def answers(client: httpx.AsyncClient, gate: RunningGate) -> dict[str, bool]:
    return {
        host: (await client.get(gate.url(host), headers={"Accept": "text/html"}, follow_redirects=True)).status_code == 200
        for host in HOSTS
    }


async def test_explanation_matches_the_outcome_of_the_user(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("anyone.localhost"), "alice")
        give(gate.config_file, "granted", "1h")
        granted = await answers(client, gate)
        assert granted == dict.fromkeys(HOSTS, True) | {"nobody.localhost": False}
        for user in ("alice@example.com", "oidc/alice", "alice"):
            for host, is_allowed in granted.items():
                found = explain(gate, host, "--user", user)
                assert (found["allowed"], found["user"]["hypothetical"]) == (is_allowed, False), (user, host, found["note"])
        await client.get(gate.url("anyone.localhost", "/.gate/sign_out"))
        done = run("manage.py", "endsessions", "--user", "oidc/alice", "-config", gate.config_file)
        assert done.returncode == 0, done.stderr
    found = explain(gate, "granted.localhost", "--user", "alice@example.com")
    assert (found["allowed"], found["user"]["hypothetical"]) == (True, False)
    assert "no live session" in found["note"]


@pytest.mark.parametrize(
    "arguments", [["--user", "bob@example.com"], ["--user", "oidc/bob"], ["--user", "alice", "--group", "engineering"]]
)
async def test_unrecorded_user_is_hypothetical(gate: RunningGate, arguments: list[str]) -> None:
    found = explain(gate, "groups.localhost", *arguments)
    assert found["user"]["hypothetical"]
    assert found["allowed"] is ("--group" in arguments)


async def test_command_fails_without_running_gate(gate: RunningGate) -> None:
    gate.stop()
    done = run("manage.py", "explainaccess", gate.url("anyone.localhost"), "--user", "alice@example.com", "-config", gate.config_file)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be read" in done.stderr
    assert "--hypothetical" in done.stderr
