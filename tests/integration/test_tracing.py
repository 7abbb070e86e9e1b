"""Traces of the running product, as their back-end receives them; and that a back-end can neither delay nor break a request."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.reloading import RELOADED, reload, replace, rewrite, wait_for_event
from tests.support.trace_backend import EnvoyRequestHead, TraceAgent, TraceBackend, until
from tests.support.upstream import SampleUpstream

HOST, OPEN = "hello.localhost", "open.localhost"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.fixture(scope="module")
def backend() -> Iterator[TraceBackend]:
    with TraceBackend() as backend:
        yield backend


def builder(provider: DevelopmentProvider, upstream: SampleUpstream, backend: TraceBackend) -> GateBuilder:
    return (
        GateBuilder(provider.url)
        .route(HOST, to=upstream.url, allow_any_authenticated_user=True)
        .route(OPEN, name="open pages", to=upstream.url, allow_public_unauthenticated_access=True)
        .setting(tracing_provider="zipkin", tracing_span_endpoint=backend.url("/api/v2/spans"), tracing_sample_rate=1)
    )


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def started(
    request: pytest.FixtureRequest,
    provider: DevelopmentProvider,
    upstream: SampleUpstream,
    backend: TraceBackend,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGate]:
    chosen = builder(provider, upstream, backend).setting(data_plane=request.param)
    with chosen.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture
def gate(started: RunningGate, backend: TraceBackend) -> Iterator[RunningGate]:
    """Traces every request; what a test changes is as it was for the next."""
    before = started.config_file.read_bytes()
    backend.received.clear()
    yield started
    if started.config_file.read_bytes() != before:
        with wait_for_event(started, RELOADED):
            replace(started.config_file, before)


def whole(spans: list[EnvoyRequestHead], path: str) -> list[EnvoyRequestHead]:
    """The root spans of requests for this path."""
    return [span for span in spans if span.tags.get("url.path") == path and span.kind == "server"]


def named(spans: list[EnvoyRequestHead], name: str) -> list[EnvoyRequestHead]:
    return [span for span in spans if span.name == name]


async def get(gate: RunningGate, host: str, path: str = "/", **headers: str) -> httpx.Response:
    async with gate.client() as client:
        return await client.get(gate.url(host, path), headers=headers)


def incoming(response: httpx.Response) -> dict[str, str]:
    return dict(response.json()["headers"])


async def test_proxied_request_is_one_trace(gate, backend):
    response = await get(gate, OPEN, "/papers?token=hidden", Cookie="secret=hidden", Authorization="Basic hidden")
    spans = until(backend.spans, lambda received: bool(whole(received, "/papers")))
    (root,) = whole(spans, "/papers")
    assert root.name == f"GET {OPEN}:{gate.port}"
    below = {span.name: span for span in spans if span.parent == root.id}
    assert below.keys() == {"authorize", "upstream"}
    assert {span.trace for span in below.values()} == {root.trace}
    assert (root.service, root.kind, root.tags["url.path"], root.tags["http.response.status_code"]) == ("gate", "server", "/papers", "200")
    assert root.tags["gate.outcome"] == below["authorize"].tags["gate.outcome"] == "allowed"
    assert root.tags["gate.route"]
    assert below["upstream"].tags["http.response.status_code"] == "200"
    (line,) = [entry for entry in gate.log if entry["event"] == "request" and entry["path"] == "/papers"]
    assert root.tags["gate.request_id"] == line["request_id"]
    assert root.tags["gate.route_name"] == below["authorize"].tags["gate.route_name"] == line["route_name"] == "open pages"
    assert incoming(response)["traceparent"] == f"00-{root.trace:032x}-{below['upstream'].id:016x}-01"
    assert incoming(response)["x-b3-traceid"] == f"{root.trace:032x}"
    assert not any(b"hidden" in taken.body for taken in backend.received)


async def test_sign_in_trace_without_secrets(gate, backend):
    async with gate.client() as client:
        page = await sign_in(client, gate.url(HOST, "/signed-in?state=mine"), "alice")
        cookies = [cookie.value for cookie in client.cookies.jar]
    assert page.status_code == 200
    spans = until(backend.spans, lambda received: bool(named(received, "GET /oauth2/callback") and whole(received, "/signed-in")[1:]))
    (callback,) = named(spans, "GET /oauth2/callback")
    requested = [span for span in named(spans, "provider") if span.trace == callback.trace]
    assert {span.tags["http.request.method"] for span in requested} >= {"POST"}
    assert all(span.tags["server.address"] == httpx.URL(gate.builder.settings["idp_provider_url"]).netloc.decode() for span in requested)
    assert {"sign in", "allowed"} <= {span.tags.get("gate.outcome", "").replace("_", " ") for span in spans}
    received = b"".join(taken.body for taken in backend.received)
    secrets = [*cookies, gate.builder.settings["idp_client_secret"], gate.builder.settings["shared_secret"], "alice", "code=", "state="]
    assert [secret for secret in secrets if secret.encode() in received] == []


async def test_denial_and_upstream_failure_are_distinguished(gate, backend):
    assert (await get(gate, HOST, "/refused", Accept="application/json")).status_code == 401
    reload(gate, policy=[{**route, "to": "http://127.0.0.1:9"} for route in gate.builder.policy])
    assert (await get(gate, OPEN, "/failed")).status_code == 502
    spans = until(backend.spans, lambda received: bool(whole(received, "/failed")))
    (refused,) = whole(spans, "/refused")
    assert (refused.tags["http.response.status_code"], refused.is_error) == ("401", False)
    (failed,) = whole(spans, "/failed")
    (upstream,) = [span for span in named(spans, "upstream") if span.parent == failed.id]
    assert failed.is_error
    assert upstream.is_error


async def test_a_stranger_can_neither_have_a_request_traced_nor_lead_its_trace(gate, backend):
    await get(gate, OPEN, "/led", **SAMPLED)
    (led,) = until(lambda: whole(backend.spans(), "/led"), bool)
    assert (f"{led.trace:032x}" == TRACE, led.parent) == (False, 0)
    reload(gate, tracing_sample_rate=0)
    untraced = await get(gate, OPEN, "/untraced", **SAMPLED)
    assert incoming(untraced)["traceparent"] == SAMPLED["traceparent"], "an application's own trace goes through"
    reload(gate, tracing_sample_rate=1)
    await get(gate, OPEN, "/after")
    spans = until(backend.spans, lambda received: bool(whole(received, "/after")))
    assert not whole(spans, "/untraced")


async def test_a_trusted_peer_leads_the_trace(gate, backend):
    reload(gate, tracing_sample_rate=0, trusted_proxies=["127.0.0.1/32"])
    response = await get(gate, OPEN, "/led", **SAMPLED, tracestate="a=1")
    (led,) = until(lambda: whole(backend.spans(), "/led"), bool)
    assert (f"{led.trace:032x}", f"{led.parent:016x}") == (TRACE, SPAN)
    assert incoming(response)["traceparent"].startswith(f"00-{TRACE}-")
    assert incoming(response)["tracestate"] == "a=1"


@pytest.mark.parametrize("provider_name", ["otlp", "jaeger", "agent", "datadog"])
async def test_a_reload_changes_the_back_end_without_a_restart(gate, backend, provider_name):
    with TraceBackend() as second, TraceAgent() as agent:
        settings: dict[str, dict[str, Any]] = {
            "otlp": {"tracing_provider": "otlp", "tracing_span_endpoint": second.url("/v1/traces")},
            "jaeger": {"tracing_provider": "jaeger", "tracing_thrift_collector_endpoint": second.url("/api/traces")},
            "agent": {"tracing_provider": "thrift", "tracing_thrift_agent_endpoint": f"127.0.0.1:{agent.port}"},
            "datadog": {"tracing_provider": "datadog", "tracing_monitor_address": f"127.0.0.1:{second.port}"},
        }
        reload(gate, **settings[provider_name])
        response = await get(gate, OPEN, "/second")
        receives = agent.spans if provider_name == "agent" else second.spans
        spans = until(receives, lambda received: bool(whole(received, "/second")))
        (root,) = whole(spans, "/second")
        assert {span.name for span in spans if span.parent == root.id} == {"authorize", "upstream"}
        assert incoming(response)["traceparent"].startswith(f"00-{root.trace:032x}-")
        assert "x-b3-traceid" not in incoming(response)
    assert not whole(backend.spans(), "/second")


async def test_a_reload_can_end_tracing(gate, backend):
    reload(gate, tracing_provider=None)
    response = await get(gate, OPEN, "/untold", **SAMPLED)
    assert incoming(response)["traceparent"] == SAMPLED["traceparent"]
    reload(gate, tracing_provider="zipkin")
    await get(gate, OPEN, "/told")
    spans = until(backend.spans, lambda received: bool(whole(received, "/told")))
    assert not whole(spans, "/untold")


async def test_provider_without_endpoint_is_refused_at_reload(gate, backend):
    with wait_for_event(gate, "configuration rejected") as refused:
        rewrite(gate.config_file, tracing_span_endpoint=None)
    assert "zipkin needs tracing_span_endpoint" in refused[0]["problem"]
    await get(gate, OPEN, "/still")
    until(backend.spans, lambda received: bool(whole(received, "/still")))


async def test_failing_trace_backend_delays_no_request(gate, backend):
    backend.go_on.clear()
    backend.is_slow.set()
    started_at = time.monotonic()
    async with gate.client() as client:
        for _ in range(300):
            assert (await client.get(gate.url(OPEN))).status_code == 200
    assert time.monotonic() - started_at < 60
    gate.wait_for_event("trace export failed")
    backend.is_slow.clear()
    backend.go_on.set()
    for _ in range(200):
        await get(gate, OPEN, "/again")
        if any(entry["event"] == "trace export recovered" for entry in gate.log):
            break
        await asyncio.sleep(0.1)
    assert [entry["event"] for entry in gate.log if "trace export" in entry["event"]] == [
        "trace export failed",
        "trace export recovered",
    ]


async def test_the_last_spans_are_sent_when_the_process_ends(provider, upstream, backend, tmp_path):
    with builder(provider, upstream, backend).start(tmp_path) as gate:
        await get(gate, OPEN, "/last")
        assert gate.stop() == 0
    assert whole(backend.spans(), "/last")
