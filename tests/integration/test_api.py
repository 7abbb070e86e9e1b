"""The API from outside: programs with tokens at a running gate, the examples of its documentation, and generated calls."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from authenticate.api.operation_registry import OPERATIONS
from databroker.permissions import PERMISSIONS
from foundation.crypto.csrf_token import FIELD
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import run
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.upstream import SampleUpstream

ROOT = Path(__file__).parents[2]
APP, WAGES = "app.localhost", "wages.localhost"
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def own_gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    """Its records are in its memory, so a command has to ask it.  `robot` may answer requests for wages, by name."""
    approvers = [{"user": "service_account/robot"}]
    builder = (
        GateBuilder(provider.url)
        .route(APP, to=upstream.url, allow_any_authenticated_user=True, name="app")
        .route(WAGES, to=upstream.url, allowed_groups=["payroll"], name="wages", access_requests={"approvers": approvers})
        .setting(groups_claim="groups", grpc_address=f"127.0.0.1:{free_port()}")
    )
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


def command(gate: RunningGate, *arguments: str) -> str:
    done = run("manage.py", "serviceaccount", *arguments, "-config", gate.config_file)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def token(own_gate: RunningGate) -> str:
    """Of a program that may everything."""
    return command(own_gate, "create", "robot", *(part for name in PERMISSIONS for part in ("--permission", name)))


def address(gate: RunningGate, path: str = "") -> str:
    return gate.url(gate.builder.authenticate_host, f"/.gate/api/{path}")


async def ask(gate: RunningGate, method: str, path: str, token: str = "", document: Any = None, **headers: str) -> httpx.Response:
    sent = {"Authorization": f"Bearer {token}", **headers} if token else headers
    async with gate.client() as program:
        return await program.request(method, address(gate, path), json=document, headers=sent)


async def test_service_account_lists_and_ends_a_session(own_gate: RunningGate, token: str) -> None:
    async with own_gate.client() as bob:
        assert (await sign_in(bob, own_gate.url(APP), "bob")).status_code == 200
        session = await until_listed(own_gate, token, "sessions?q=bob@example")
        assert (await ask(own_gate, "GET", f"sessions?user_id={session['user_id']}", token)).json()["items"][0]["id"] == session["id"]
        ended = await ask(own_gate, "DELETE", f"sessions/{session['id']}", token)
        assert (ended.status_code, ended.content) == (204, b"")
        assert (await bob.get(own_gate.url(APP), headers={"Accept": "text/html"})).status_code == 302


async def test_head_and_options_match_get(own_gate: RunningGate, token: str) -> None:
    head, get = await ask(own_gate, "HEAD", "routes", token), await ask(own_gate, "GET", "routes", token)
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", get.headers["content-type"])
    options = await ask(own_gate, "OPTIONS", "routes")
    assert (options.status_code, options.headers["allow"], options.content) == (204, "GET, HEAD, OPTIONS", b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "routes", 401),
        ("GET", "nothing", 404),
        ("GET", "", 404),
        ("PUT", "routes", 405),
        ("GET", "sessions/%2e%2e%2fx", 400),
        ("GET", "sessions/a%00b", 400),
    ],
)
async def test_every_error_is_an_uncached_problem(own_gate: RunningGate, method: str, path: str, status: int) -> None:
    answer = await ask(own_gate, method, path, Accept="text/html")
    assert (answer.status_code, answer.headers["content-type"], answer.headers["cache-control"]) == (status, PROBLEM, "no-store")
    assert answer.json()["status"] == status


async def test_a_long_body_is_refused_as_a_problem(own_gate: RunningGate, token: str) -> None:
    for size in (20_000, 200_000):
        answer = await ask(own_gate, "POST", "end_sessions", token, {"user_id": "x" * size})
        assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)


async def test_the_document_that_is_served_is_the_one_of_the_documentation(own_gate: RunningGate) -> None:
    served = await ask(own_gate, "GET", "openapi.json")
    assert served.json() == json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())


EXAMPLE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_documented_examples_work(own_gate: RunningGate, token: str) -> None:
    """Each `curl` of docs/reference/api.md, by Bash, with things that are there."""
    examples = "".join(EXAMPLE.findall((ROOT / "docs" / "reference" / "api.md").read_text()))
    async with own_gate.client() as alice:
        assert (await sign_in(alice, own_gate.url(APP), "alice")).status_code == 200
        session = await until_listed(own_gate, token, "sessions?q=alice@example")
        for _ in range(2):  # one to be approved, one to be refused
            await ask_for_wages(alice, own_gate)
        approved, refused = (await ask(own_gate, "GET", "requests", token)).json()["items"]
        calls = [line for line in examples.replace("\\\n", "").splitlines() if line]
        assert len(calls) > 12
        known = {"SESSION": session["id"], "REQUEST": refused["id"], "CONNECTION": f"{64 * '0'}-{64 * '0'}"}
        done = await ask(own_gate, "POST", f"requests/{approved['id']}/approve", token)
        assert done.json()["granted"] is True
        statuses = list[tuple[str, int]]()
        for line in calls:
            if "$GRANT" in line:  # the approval of the second request has replaced the access that the first one gave
                known["GRANT"] = (await ask(own_gate, "GET", "grants", token)).json()["items"][0]["id"]
            statuses.append((line, output(own_gate, token, line, known)))
    # The request was to be approved, and then to be refused: it is over by then.  No account is connected.
    assert [(line, status) for line, status in statuses if status not in (200, 201, 204)] == [
        (line, 404) for line in calls if line.endswith(('/deny"', '$CONNECTION"'))
    ]


def output(gate: RunningGate, token: str, line: str, known: dict[str, str]) -> int:
    """The status that an example is answered with."""
    script = f'curl() {{ command curl --cacert {gate.certificates.authority} -o /dev/null -w "%{{http_code}}" "$@"; }}\n{line}\n'
    variables = {"API": address(gate).rstrip("/"), "TOKEN": token, "PATH": os.environ["PATH"], **known}
    done = subprocess.run(["bash", "-euc", script], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


async def until_listed(gate: RunningGate, token: str, path: str) -> dict[str, Any]:
    """The first that is listed, once it is: tables follow the store."""
    for _ in range(200):
        if items := (await ask(gate, "GET", path, token)).json()["items"]:
            return dict(items[0])
    raise AssertionError(f"nothing is listed at {path}")


async def ask_for_wages(user: httpx.AsyncClient, gate: RunningGate) -> None:
    page_url = gate.url(gate.builder.authenticate_host, "/.gate/access")
    (chosen,) = re.findall(r"\?route=([0-9a-f]+)", (await user.get(page_url)).text)
    form = (await user.get(page_url, params={"route": chosen})).text
    (csrf,) = set(re.findall(rf'name="{FIELD}"[^>]* value="([^"]+)"', form))
    sent = {FIELD: csrf, "do": "ask", "route": chosen, "why": "the year's end", "duration": "3600"}
    assert (await user.post(page_url, data=sent)).status_code == 303


HOOKS = """
import socket

import schemathesis
from schemathesis import GenerationMode

_look_up = socket.getaddrinfo


def _loopback(host, *arguments, **options):
    return _look_up("127.0.0.1" if str(host).endswith(".localhost") else host, *arguments, **options)


socket.getaddrinfo = _loopback


@schemathesis.hook
def before_call(context, case, kwargs):
    # A schema can say the form of a cursor, and not that gate has made it: any other is refused, and that is right.
    if case.query and case.meta and case.meta.generation.mode is GenerationMode.POSITIVE:
        case.query.pop("cursor", None)
"""


def test_schemathesis_finds_nothing(own_gate: RunningGate, token: str, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks.py"
    hooks.write_text(HOOKS)
    arguments = ["--url", address(own_gate).rstrip("/"), "--header", f"Authorization: Bearer {token}", "--tls-verify", "false"]
    bounds = ["--max-examples", "6", "--seed", "1", "--no-color", "--phases", "coverage,fuzzing", "--request-timeout", "20"]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", ROOT / "docs" / "reference" / "openapi.json", *arguments, *bounds],
        env={**os.environ, "SCHEMATHESIS_HOOKS": str(hooks), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Tested: +(\d+)", done.stdout)[1] == str(len(OPERATIONS)), done.stdout
