"""Nothing of an application is of one origin with the admin: not by a route, and not by a wildcard that would cover its host."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.gate import HTML, GateBuilder, RunningGate
from tests.support.reloading import rewrite, wait_for_event
from tests.support.upstream import SampleUpstream

DOMAIN = "corp.test"
AUTHENTICATE, FORWARD, APP = (f"{name}.{DOMAIN}" for name in ("auth", "fwd", "app"))


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, upstream: SampleUpstream) -> Iterator[RunningGate]:
    builder = GateBuilder("http://127.0.0.1:9", authenticate_host=AUTHENTICATE)
    builder.route(f"*.{DOMAIN}", to=upstream.url, allow_public_unauthenticated_access=True)
    builder.setting(data_plane=request.param, forward_auth_url=builder.url(FORWARD, ""))
    builder.policy.append({**builder.policy[0], "from": f"https://*.{DOMAIN}"})
    with ExitStack() as stack:
        yield stack.enter_context(builder.start(tmp_path_factory.mktemp("gate")))


@pytest.mark.parametrize("path", ["/x", "/", "/index.html", "/.gate", "/.gatex/", "/%2egate%2f", "/robots.txt", "/oauth2/callback/x"])
@pytest.mark.parametrize("host", [AUTHENTICATE, FORWARD])
async def test_wildcard_excludes_gate_hosts(gate: RunningGate, upstream: SampleUpstream, host: str, path: str) -> None:
    async with gate.client() as client:
        assert (await client.get(gate.url(APP, "/x"), headers=HTML)).status_code == 200
        before = upstream.hits
        for spelled in (f"{host}:{gate.port}", f"{host.upper()}:{gate.port}", f"{host}.:{gate.port}", host):
            answer = await client.get(gate.url(host, path), headers={**HTML, "Host": spelled})
            assert answer.status_code in (301, 302, 308, 400, 401, 404, 421) or path == "/robots.txt", (spelled, answer.status_code)
        assert upstream.hits == before


def test_a_route_on_the_host_of_the_admin_is_refused_with_the_reason(gate: RunningGate, upstream: SampleUpstream) -> None:
    invalid = {"from": f"https://{AUTHENTICATE}:9", "to": upstream.url, "allow_public_unauthenticated_access": True}
    with wait_for_event(gate, "configuration rejected") as refusals:
        rewrite(gate.config_file, policy=[*gate.builder.policy, invalid])
    assert "policy[2].from: is the host of authenticate_service_url" in refusals[0]["problem"]
