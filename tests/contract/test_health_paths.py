"""`/ping` and `/healthz` on the host of a route, over both data planes: gate's own, or the application's by `health_paths_on_routes`."""

from collections.abc import Iterator

import pytest

from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import RawClient, RawResponse
from tests.support.upstream import SampleUpstream

PUBLIC, MEMBERS = "public.localhost", "members.localhost"


@pytest.fixture(scope="module", params=[("embedded", True), ("embedded", False), ("envoy", True), ("envoy", False)], ids=str)
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningGate, bool]]:
    plane, is_gates = request.param
    with SampleUpstream() as application:
        builder = GateBuilder("https://unasked.localhost").setting(data_plane=plane, health_paths_on_routes=is_gates)
        builder.route(PUBLIC, to=application.url, allow_public_unauthenticated_access=True)
        builder.route(MEMBERS, to=application.url, allow_any_authenticated_user=True)
        with builder.start(tmp_path_factory.mktemp(plane)) as running:
            yield running, is_gates


def ask(gate: RunningGate, host: str, path: str, method: str = "GET") -> RawResponse:
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=PUBLIC) as client:
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}:{gate.port}\r\nContent-Length: 0\r\n\r\n"
        return client.send(head.encode()).response(method)


@pytest.mark.parametrize("path", ["/ping", "/healthz", "/healthz?verbose=1"])
def test_setting_decides_owner_of_health_paths(gate: tuple[RunningGate, bool], path: str) -> None:
    running, is_gates = gate
    public, posted, members = ask(running, PUBLIC, path), ask(running, PUBLIC, path, "POST"), ask(running, MEMBERS, path)
    if is_gates:
        assert (public.status, public.body, posted.status, members.status) == (200, b"OK\n", 405, 200)
    else:
        assert (public.status, posted.status, members.status) == (200, 200, 401)
        assert f'"target": "{path}"' in public.body.decode()


def test_every_other_host_has_gates_own(gate: tuple[RunningGate, bool]) -> None:
    for host in ("127.0.0.1", "unknown.localhost"):
        assert ask(gate[0], host, "/ping").body == b"OK\n"
