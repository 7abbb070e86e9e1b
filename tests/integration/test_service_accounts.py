"""Service accounts as operators and programs have them: manage.py beside a running gate, and the application behind it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.browser import headless_browser
from tests.support.certs import certificate_files
from tests.support.children import free_port, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import run
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream


@pytest.fixture(scope="module")
def own_gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    """Its records are in its memory, so a command has to ask it."""
    builder = (
        GateBuilder(provider.url)
        .route("deploy.localhost", to=upstream.url, allowed_groups=["deployers"], pass_identity_headers=True)
        .route("only-ci.localhost", to=upstream.url, allowed_users=["service_account/ci"], pass_identity_headers=True)
        .setting(
            groups_claim="groups",
            grpc_address=f"127.0.0.1:{free_port()}",
            admin_allowed_users=["alice@example.com"],
            jwt_claims_headers=["groups", "user"],
        )
    )
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


def command(gate: RunningGate, *arguments: str) -> str:
    done = run("manage.py", "serviceaccount", *arguments, "-config", gate.config_file)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def status(gate: RunningGate, token: str, host: str = "deploy.localhost") -> int:
    async with gate.client() as program:
        return (await program.get(gate.url(host), headers={"Authorization": f"Bearer {token}"})).status_code


async def until(gate: RunningGate, token: str, wanted: int) -> None:
    for _ in range(200):
        if await status(gate, token) == wanted:
            return
    raise AssertionError(f"never {wanted}")


def is_last_use_known(gate: RunningGate) -> bool:
    """By the row that the command reads: a command takes longer than this to begin."""
    (path,) = (gate.config_file.parent / "data").glob("*.sqlite3")
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT 1 FROM databroker_serviceaccount WHERE id = 'ci' AND last_seen_at IS NOT NULL").fetchall()
    return bool(rows)


async def test_an_account_is_made_used_renewed_listed_and_revoked(own_gate: RunningGate) -> None:
    first = command(own_gate, "create", "ci", "--group", "deployers", "--expires", "12h")
    async with own_gate.client() as program:
        page = await program.get(own_gate.url("deploy.localhost", "/x"), headers={"Authorization": f"Bearer {first}"})
        incoming = dict(page.json()["headers"])
        assert (incoming["x-gate-claim-user"], incoming["x-gate-claim-groups"]) == ("service_account/ci", "deployers")
        assert "authorization" not in incoming
        assert first not in page.text
    assert await status(own_gate, first, "only-ci.localhost") == 200
    second = command(own_gate, "rotate", "ci")
    await until(own_gate, first, 401)
    assert await status(own_gate, second) == 200

    wait_until(lambda: is_last_use_known(own_gate), "the last use is written down")
    (listed,) = (account for account in json.loads(command(own_gate, "list", "--json")) if account["name"] == "ci")
    assert listed["last_used_at"]
    assert listed["last_host"].startswith(("deploy.localhost", "only-ci.localhost"))
    command(own_gate, "revoke", "ci")
    await until(own_gate, second, 401)
    assert not any(token in own_gate.child.output for token in (first, second))


async def test_service_account_created_in_admin_is_audited(own_gate: RunningGate, provider: DevelopmentProvider, tmp_path: Path) -> None:
    command(own_gate, "create", "by-command")
    with headless_browser(tmp_path / "profile", trusted_spki=own_gate.certificates.spki_hash) as browser:
        browser.open(own_gate.url("authenticate.localhost", "/.gate/admin/databroker/serviceaccount/add/"))
        browser.wait_for_url(provider.url)
        browser.click('button[value="alice"]')
        browser.wait_for_url(own_gate.url("authenticate.localhost", "/.gate/admin/"))
        browser.find("#id_name").send_keys("by-hand")
        browser.find("#id_groups").send_keys("deployers")
        browser.picture("account-form")
        browser.click("input[type=submit]")
        token = browser.find("#secret").text
        browser.picture("account-secret")
        assert await status(own_gate, token) == 200
        browser.open(own_gate.url("authenticate.localhost", "/.gate/admin/databroker/auditentry/"))
        for received in ("creates the service account", "by-hand", "by-command", "alice@example.com"):
            assert received in browser.text
        browser.open(own_gate.url("authenticate.localhost", "/.gate/admin/databroker/serviceaccount/"))
        assert "by-hand" in browser.text
        browser.picture("accounts")
        assert token not in browser.driver.page_source


def test_memory_store_without_running_gate_is_unreachable(provider: DevelopmentProvider, tmp_path: Path) -> None:
    builder = GateBuilder(provider.url).route("a.localhost", to="http://127.0.0.1:9", allow_any_authenticated_user=True)
    config = builder.write(tmp_path, certificate_files(tmp_path, builder.authenticate_host, "a.localhost"))
    done = run("manage.py", "serviceaccount", "create", "ci", "-config", config)
    assert done.returncode != 0
    assert "nothing was changed" in done.stderr
    assert done.stdout == ""
