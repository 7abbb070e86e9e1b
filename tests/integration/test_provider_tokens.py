"""The provider's tokens at an application behind the running product, on each plane, and nowhere else; refreshed where they are old."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.recording_upstream import RecordingUpstream

pytestmark = pytest.mark.slow

HEADERS = {"Authorization": "Bearer ${access_token}", "X-Id-Token": "${id_token}"}
PASSED: dict[str, Any] = {"allow_any_authenticated_user": True, "pass_provider_tokens": True, "set_request_headers": HEADERS}
FORGED = {"Authorization": "Bearer forged", "X-Id-Token": "forged", "X_Id_Token": "forged", "Accept": "text/html"}


@pytest.fixture(params=["embedded", "envoy", "workers"])
def stage(request: pytest.FixtureRequest, provider: DevelopmentProvider, tmp_path: Path) -> Iterator[tuple[RunningGate, RecordingUpstream]]:
    settings = {"data_plane": "envoy"} if request.param == "envoy" else {"workers": 2} if request.param == "workers" else {}
    builder = GateBuilder(provider.url).setting(log_level="debug", decision_log_size=1000, **settings)
    builder.setting(metrics_address=f"127.0.0.1:{free_port()}")
    with RecordingUpstream() as upstream, builder.route("app.localhost", to=upstream.url, **PASSED).start(tmp_path) as gate:
        yield gate, upstream


def told(head: bytes, name: str) -> list[str]:
    return [found.decode() for found in re.findall(rf"(?im)^{name}: (.*)\r$".encode(), head)]


async def test_the_application_gets_the_persons_tokens_and_nobody_else_reads_them(stage: tuple[RunningGate, RecordingUpstream]) -> None:
    gate, upstream = stage
    url = gate.url("app.localhost")
    async with gate.client() as client:
        assert (await sign_in(client, url, "alice")).status_code == 200
        answers = [await client.get(url, headers=FORGED) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        tokens = set()
        for head in upstream.received[-3:]:
            (authorization,), (id_token,) = told(head, "authorization"), told(head, "x-id-token")
            assert b"forged" not in head
            tokens |= {authorization.removeprefix("Bearer "), id_token}
        refused = await client.get(url, headers={"Accept": "text/html", "Cookie": ""})
    assert len(tokens) == 2
    shown = [str(dict(answer.headers)) + answer.text for answer in (*answers, refused)]
    async with httpx.AsyncClient(trust_env=False) as outside:
        shown.append((await outside.get(f"http://{gate.builder.settings['metrics_address']}/metrics")).text)
    shown.append(gate.child.output)
    for token in tokens:
        assert token
        assert all(token not in text for text in shown)
