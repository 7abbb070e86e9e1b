"""Three real upstreams behind one host: traffic is spread, moves away from one that is lost, and comes back; on both data planes."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import Exchange, RawUpstream

PORTS = [free_port() for _ in range(3)]
METRICS = free_port()
TO = [f"http://127.0.0.1:{port}" for port in PORTS]
CHECK = {"timeout": "10s", "interval": "50ms", "unhealthy_threshold": 1, "healthy_threshold": 1, "http_health_check": {"path": "/healthz"}}
OPEN = {"allow_public_unauthenticated_access": True}
REWRITES = {
    "regex_rewrite_pattern": "^/old/([^/]*)(.*)$",
    "regex_rewrite_substitution": r"/new\2/\1",
    "host_rewrite_header": "X-Upstream-Host",
}


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(request: pytest.FixtureRequest, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    builder = (
        GateBuilder(provider.url)
        .route("checked.localhost", to=TO, health_checks=[CHECK], **OPEN)
        .route("plain.localhost", to=[f"{to},{weight}" for to, weight in zip(TO, (2, 1, 1), strict=True)], **OPEN)
        .route("sticky.localhost", to=TO, lb_policy="MAGLEV", **OPEN)
        .route("bad.localhost", to=TO[:2], outlier_detection={"consecutive_5xx": 2, "base_ejection_time": "1h"}, **OPEN)
        .route("rewritten.localhost", to=TO[0], **REWRITES, **OPEN)
        .route("spdy.localhost", to=TO[0], allow_spdy=True, **OPEN)
        .route("names.localhost", to=[f"http://127.0.0.1:{PORTS[0]}", f"http://localhost:{PORTS[1]}"], lb_policy="MAGLEV", **OPEN)
        .setting(metrics_address=f"127.0.0.1:{METRICS}", data_plane=request.param)
    )
    with builder.start(tmp_path_factory.mktemp("several")) as running:
        yield running


class Upstreams:
    """Those of `running` answer, with their number; others are gone."""

    def __init__(self, *, statuses: dict[int, bytes] | None = None):
        self._statuses = statuses or {}
        self.canaries: dict[int, RawUpstream] = {}

    async def __aenter__(self) -> "Upstreams":
        for number in range(3):
            await self.start(number)
        return self

    async def __aexit__(self, *_: object) -> None:
        for number in list(self.canaries):
            await self.kill(number)

    async def start(self, number: int) -> None:
        status = self._statuses.get(number, b"200 OK")
        answer = b"HTTP/1.1 %b\r\nContent-Length: 1\r\n\r\n%d" % (status, number)
        self.canaries[number] = await RawUpstream(answer, port=PORTS[number]).__aenter__()

    async def kill(self, number: int) -> None:
        await self.canaries.pop(number).__aexit__()


async def ask(client: httpx.AsyncClient, gate: RunningGate, host: str, count: int) -> Counter[tuple[int, str]]:
    answers = [await client.get(gate.url(host)) for _ in range(count)]
    return Counter((answer.status_code, answer.text if answer.status_code < 500 else "") for answer in answers)


async def until(client: httpx.AsyncClient, gate: RunningGate, host: str, expected: set[tuple[int, str]]) -> None:
    async with asyncio.timeout(30):
        while set(await ask(client, gate, host, 6)) != expected:
            await asyncio.sleep(0.05)


async def test_traffic_moves_from_a_killed_upstream_and_back_to_a_revived_one(gate: RunningGate) -> None:
    async with Upstreams() as upstreams, gate.client() as client:
        await until(client, gate, "checked.localhost", {(200, "0"), (200, "1"), (200, "2")})
        assert await ask(client, gate, "checked.localhost", 9) == {(200, "0"): 3, (200, "1"): 3, (200, "2"): 3}
        await upstreams.kill(1)
        # No request is lost: gate retries requests in flight at another upstream.
        lost = await ask(client, gate, "checked.localhost", 30)
        assert {status for status, _ in lost} == {200}
        await until(client, gate, "checked.localhost", {(200, "0"), (200, "2")})
        gate.wait_for_event("upstream unhealthy", lambda event: event["upstream"] == TO[1])
        metrics = httpx.get(f"http://127.0.0.1:{METRICS}/metrics", trust_env=False).text
        assert f'gate_upstream_healthy{{service="gate",upstream="{TO[1]}"}} 0.0' in metrics
        assert f'gate_upstream_healthy{{service="gate",upstream="{TO[0]}"}} 1.0' in metrics
        for number in (0, 2):
            await upstreams.kill(number)
        await until(client, gate, "checked.localhost", {(503, "")})
        await upstreams.start(1)
        await until(client, gate, "checked.localhost", {(200, "1")})
        gate.wait_for_event("upstream healthy", lambda event: event["upstream"] == TO[1])


async def test_weights_are_exact_and_lost_upstream_fails_no_request(gate: RunningGate) -> None:
    async with Upstreams() as upstreams, gate.client() as client:
        assert await ask(client, gate, "plain.localhost", 8) == {(200, "0"): 4, (200, "1"): 2, (200, "2"): 2}
        await upstreams.kill(0)
        assert set(await ask(client, gate, "plain.localhost", 12)) == {(200, "1"), (200, "2")}


async def test_retry_uses_the_other_upstreams_host_and_cleans_its_response(gate: RunningGate) -> None:
    """No request with a complete body is lost, and each request has one log line, for each upstream that was tried first."""
    planted = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: _gate=planted\r\nSet-Cookie: theme=dark\r\n\r\nok"
    # The first choice of this client is one of them, so each is gone once.
    for alive, name in enumerate((f"names.localhost:{gate.port}", f"localhost:{PORTS[1]}")):
        async with RawUpstream(planted, port=PORTS[alive]) as upstream, gate.client() as client:
            for number, (method, body) in enumerate((("GET", b""), ("POST", b"x" * 1000), ("PUT", b"y" * 200_000))):
                path = f"/asked/{alive}/{number}"
                answer = await client.request(method, gate.url("names.localhost", path), content=body)
                assert (answer.status_code, answer.headers.get_list("set-cookie")) == (200, ["theme=dark"])
                (requested,) = [request for request in upstream.requests if request.target == path.encode()]
                assert (requested.body, requested.values(b"host")) == (body, [name.encode()])
                assert not [pair for pair in requested.headers if pair[0].lower().startswith((b"x-gate-", b"x-envoy-"))]
                line = gate.wait_for_event("request", lambda event, path=path: event["path"] == path)
                assert (line["status"], line["outcome"], line.get("problem")) == (200, "allowed", None)
                assert sum(event.get("path") == path for event in gate.log) == 1
    async with gate.client() as client:
        refused = await client.get(gate.url("names.localhost", "/nobody"), headers={"Accept": "text/html"})
    assert (refused.status_code, "be reached" in refused.text) == (502, True)
    line = gate.wait_for_event("request", lambda event: event["path"] == "/nobody")
    assert "refused the connection" in line["problem"]


async def test_sent_request_is_not_retried(gate: RunningGate) -> None:
    """An upstream that takes a request and hangs up may have acted on it."""
    received: list[bytes] = []

    async def hangs_up(conversation: Exchange) -> None:
        request = await conversation.request()
        if request.target != b"/healthz":
            received.append(request.line)

    async with RawUpstream(script=hangs_up, port=PORTS[0]), RawUpstream(script=hangs_up, port=PORTS[1]), gate.client() as client:
        for method, content in (("GET", b""), ("POST", b"order=1")):
            assert (await client.request(method, gate.url("names.localhost", f"/{method}"), content=content)).status_code == 502
    assert received == [b"GET /GET HTTP/1.1", b"POST /POST HTTP/1.1"]


async def test_one_client_comes_to_one_upstream(gate: RunningGate) -> None:
    async with Upstreams() as upstreams, gate.client() as client:
        (first,) = await ask(client, gate, "sticky.localhost", 10)
        await upstreams.kill(int(first[1]))
        (second,) = await ask(client, gate, "sticky.localhost", 10)
        assert second != first
        await upstreams.start(int(first[1]))
        assert list(await ask(client, gate, "sticky.localhost", 10)) == [first]


async def test_an_upstream_that_answers_with_errors_is_left_out(gate: RunningGate) -> None:
    async with Upstreams(statuses={1: b"500 Internal Server Error"}), gate.client() as client:
        await until(client, gate, "bad.localhost", {(200, "0")})
        assert await ask(client, gate, "bad.localhost", 10) == {(200, "0"): 10}
        assert gate.wait_for_event("upstream ejected")["reason"] == "consecutive 5xx"


async def test_path_and_host_are_rewritten(gate: RunningGate) -> None:
    async with Upstreams() as upstreams, gate.client() as client:
        url = gate.url("rewritten.localhost", "/old/name/%7Ex/../y?q=/old/a")
        assert (await client.get(url, headers={"X-Upstream-Host": "Tenant.internal:81"})).status_code == 200
        assert (await client.get(gate.url("rewritten.localhost", "/other"))).status_code == 200
        for value in ("a/b", "a b", "user@host"):
            assert (await client.get(url, headers={"X-Upstream-Host": value})).status_code == 400
        first, second = [request for request in upstreams.canaries[0].requests if request.target != b"/healthz"]
        assert (first.target, first.values(b"host")) == (b"/new/y/name?q=/old/a", [b"tenant.internal:81"])
        assert (second.target, second.values(b"host")) == (b"/other", [f"rewritten.localhost:{gate.port}".encode()])


SPDY = "POST /exec HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4\r\n\r\n"


async def test_spdy_is_a_tunnel_where_the_route_allows_it(gate: RunningGate) -> None:
    heads: list[bytes] = []

    async def script(conversation: Exchange) -> None:
        heads.append(await conversation.head())
        if b"SPDY" not in heads[-1]:
            await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            return
        await conversation.send(ACCEPTED + b"\x80\x03")
        await conversation.send((await conversation.read(4))[::-1])

    async with RawUpstream(script=script, port=PORTS[0]):
        tls = gate.certificates.client_context()
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port, ssl=tls, server_hostname="spdy.localhost")
        writer.write(SPDY.format(host="spdy.localhost", port=gate.port).encode() + b"ping")
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101"), [line for line in gate.log if line.get("host", "").startswith("spdy")]
        assert b"upgrade: spdy/3.1" in answer.lower()
        assert await reader.readexactly(6) == b"\x80\x03gnip"
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        # Without the key the upgrade is refused.
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port, ssl=tls, server_hostname="rewritten.localhost")
        writer.write(SPDY.format(host="rewritten.localhost", port=gate.port).encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403")
        assert not [head for head in heads if b"rewritten.localhost" in head]
        writer.close()
        await writer.wait_closed()
