"""The provider's tokens at an application behind the running product, on each plane, and nowhere else; refreshed where they are old."""

import re
from collections.abc import AsyncIterator, Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from authenticate.api.operation_registry import OPERATIONS
from databroker.permissions import PERMISSIONS
from databroker.records import SESSION
from databroker.rpc.remote_broker import RemoteBroker
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import Url
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import run
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.options import make_options
from tests.support.upstream import RecordingUpstream

HEADERS = {"Authorization": "Bearer ${access_token}", "X-Id-Token": "${id_token}"}
PASSED: dict[str, Any] = {"allow_any_authenticated_user": True, "pass_provider_tokens": True, "set_request_headers": HEADERS}
ALL = [part for name in PERMISSIONS for part in ("--permission", name)]
KINDS = {"loggeddecision", "session", "user"}
FORGED = {"Authorization": "Bearer forged", "X-Id-Token": "forged", "X_Id_Token": "forged", "Accept": "text/html"}


@pytest.fixture(params=["embedded", "envoy", "workers"])
def stage(request: pytest.FixtureRequest, provider: DevelopmentProvider, tmp_path: Path) -> Iterator[tuple[RunningGate, RecordingUpstream]]:
    settings = {"data_plane": "envoy"} if request.param == "envoy" else {"workers": 2} if request.param == "workers" else {}
    builder = GateBuilder(provider.url).setting(log_level="debug", decision_log_size=1000, **settings)
    builder.setting(metrics_address=f"127.0.0.1:{free_port()}")
    with RecordingUpstream() as upstream, builder.route("app.localhost", to=upstream.url, **PASSED).start(tmp_path) as gate:
        yield gate, upstream


def sent(head: bytes, name: str) -> list[str]:
    return [found.decode() for found in re.findall(rf"(?im)^{name}: (.*)\r$".encode(), head)]


async def test_provider_tokens_reach_only_their_application(stage: tuple[RunningGate, RecordingUpstream]) -> None:
    gate, upstream = stage
    url = gate.url("app.localhost")
    async with gate.client() as client:
        assert (await sign_in(client, url, "alice")).status_code == 200
        answers = [await client.get(url, headers=FORGED) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        tokens = set()
        for head in upstream.received[-3:]:
            (authorization,), (id_token,) = sent(head, "authorization"), sent(head, "x-id-token")
            assert b"forged" not in head
            tokens |= {authorization.removeprefix("Bearer "), id_token}
        refused = await client.get(url, headers={"Accept": "text/html", "Cookie": ""})
    assert len(tokens) == 2
    displayed = [str(dict(answer.headers)) + answer.text for answer in (*answers, refused)]
    async with httpx.AsyncClient(trust_env=False) as outside:
        displayed.append((await outside.get(f"http://{gate.builder.settings['metrics_address']}/metrics")).text)
    displayed.append(gate.child.output)
    for token in tokens:
        assert token
        assert all(token not in text for text in displayed)


async def test_no_page_no_table_no_answer_and_no_log_holds_one(provider: DevelopmentProvider, tmp_path: Path) -> None:
    """Also not of those who may look at everything: an administrator, and a program with all permissions."""
    port = free_port()
    settings = {
        "log_level": "debug",
        "decision_log_size": 1000,
        "admin_allowed_users": ["alice@example.com"],
        "grpc_address": f"127.0.0.1:{port}",
    }
    with RecordingUpstream() as upstream:
        builder = GateBuilder(provider.url).setting(**settings).route("app.localhost", to=upstream.url, name="app", **PASSED)
        with builder.start(tmp_path) as gate:
            async with gate.client() as alice:
                url = gate.url("app.localhost", "/x")
                assert (await sign_in(alice, url, "alice")).status_code == 200
                tokens = await tokens_of_sessions(gate, port)
                assert len(tokens) >= 3
                made = run("manage.py", "serviceaccount", "create", "robot", *ALL, "-config", gate.config_file)
                assert made.returncode == 0, made.stderr
                displayed = {page: text async for page, text in pages_of_the_admin(alice, gate)}
                displayed |= {path: text async for path, text in lists_of_the_api(gate, made.stdout.strip())}
            requested = ["explainaccess", url, "--user", "alice@example.com", "-config", gate.config_file]
            explained = run("manage.py", *requested)
            assert "app" in explained.stdout, explained.stderr
            assert {kind for kind in KINDS if any(f"/{kind}/" in page and "change" in page for page in displayed)} == KINDS
            displayed["log"] = gate.child.output
        displayed |= {str(path): path.read_bytes().decode("latin-1") for path in (tmp_path / "data").rglob("*") if path.is_file()}
    assert [(where, token[:6]) for where, text in displayed.items() for token in (*tokens, made.stdout.strip()) if token in text] == []


async def tokens_of_sessions(gate: RunningGate, port: int) -> set[str]:
    secret = gate.builder.settings["shared_secret"]
    own = gate.config_file.parent / "asker"
    own.mkdir()
    options = make_options(own, shared_secret=secret)
    broker = RemoteBroker(RpcChannel(Url("http", "127.0.0.1", port), options, SharedSecret(options.shared_secret)))
    records = await broker.page(SESSION, "", 100)
    await broker.close()
    return {record.data[name] for record in records for name in ("id_token", "access_token", "refresh_token") if record.data.get(name)}


async def pages_of_the_admin(client: httpx.AsyncClient, gate: RunningGate) -> AsyncIterator[tuple[str, str]]:
    """Each that links lead to from the first, without the many ways in which lists are filtered and sorted."""
    host, left, seen = gate.builder.authenticate_host, ["/.gate/admin/"], set[str]()
    while left:
        path = left.pop()
        if path in seen or "logout" in path or "?" in path:
            continue
        seen.add(path)
        answer = await client.get(gate.url(host, path), headers={"Accept": "text/html"}, follow_redirects=True)
        yield path, str(answer.headers) + answer.text
        links = [urljoin(path, unescape(link)) for link in re.findall(r'href="([^"#]+)"', answer.text)]
        left += [link for link in links if link.startswith("/.gate/admin/")]


async def lists_of_the_api(gate: RunningGate, token: str) -> AsyncIterator[tuple[str, str]]:
    async with gate.client(headers={"Authorization": f"Bearer {token}"}) as program:
        for operation in OPERATIONS:
            if operation.method == "GET" and not operation.id_pattern:
                answer = await program.get(gate.url(gate.builder.authenticate_host, f"/.gate/api/{operation.path}"))
                assert answer.status_code == 200
                yield operation.path, answer.text
                if operation.path == "sessions":
                    for item in answer.json()["items"]:
                        one = await program.get(gate.url(gate.builder.authenticate_host, f"/.gate/api/sessions/{item['id']}"))
                        yield f"sessions/{item['id']}", one.text
