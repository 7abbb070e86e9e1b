"""Request data that a trace contains, and data that it never contains."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorize.policy.policy_request import PolicyRequest
from proxy.observe.request_spans import name_builtin_span, recording_status, start_request_span
from tests.support.asgi import incoming_from
from tests.support.proxied import proxied
from tests.support.span_recorder import SpanRecorder

SECRET = "hidden-from-everybody"
PUBLIC = {"allow_public_unauthenticated_access": True}


@pytest.fixture
def spans(tmp_path: Path) -> Iterator[SpanRecorder]:
    recorder = SpanRecorder(tmp_path)
    yield recorder
    recorder.tracer.stop()


async def test_span_of_an_mcp_request_has_its_method_and_tool(spans: SpanRecorder, tmp_path: Path) -> None:
    url = "https://app.example.com/mcp"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x" * 1000}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    async with proxied(tmp_path, {**PUBLIC, "mcp": {}}) as gate:
        root = start_request_span(spans.tracer, incoming_from(url, method="POST"))
        assert root is not None
        with root:
            await gate.send(url, body, method="POST", headers=headers)
    (whole,) = [span for span in spans.ended() if span.name.startswith("POST")]
    assert (whole.attributes["mcp.method.name"], whole.attributes["gen_ai.tool.name"]) == ("tools/call", "x" * 256)


async def test_request_is_recorded_without_secrets(spans: SpanRecorder, tmp_path: Path) -> None:
    url = f"https://app.example.com/papers?token={SECRET}"
    headers = dict.fromkeys(("cookie", "authorization", "referer"), SECRET)
    async with proxied(tmp_path, {"prefix": "/papers", **PUBLIC}) as gate:
        root = start_request_span(spans.tracer, incoming_from(url))
        assert root is not None
        with root:
            answer = await gate.send(url, headers=headers)
        assert answer.status == 200
        (upstream_request,) = gate.canary.requests
    by_name = {span.name: span for span in spans.ended()}
    assert by_name.keys() == {"authorize", "upstream", "GET app.example.com/papers"}
    whole, upstream = by_name["GET app.example.com/papers"], by_name["upstream"]
    assert dict(whole.attributes) == {
        "http.request.method": "GET",
        "gate.request_id": "f" * 32,
        "server.address": "app.example.com",
        "url.path": "/papers",
        "gate.outcome": "allowed",
        "gate.reason": whole.attributes["gate.reason"],
        "gate.route": whole.attributes["gate.route"],
        "gate.route_name": "",
        "http.response.status_code": 200,
    }
    assert upstream.attributes["server.address"] == "127.0.0.1"
    (named,) = upstream_request.values(b"traceparent")
    assert named.decode().split("-")[2] == f"{upstream.get_span_context().span_id:016x}"
    assert SECRET not in "".join(span.to_json() for span in spans.spans)


async def test_untraced_upstream_receives_client_trace_headers(tmp_path: Path) -> None:
    written = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "b3": "0"}
    async with proxied(tmp_path, PUBLIC) as gate:
        await gate.send("https://app.example.com/", headers=written)
        (upstream_request,) = gate.canary.requests
    assert {name: upstream_request.values(name.encode()) for name in written} == {name: [value.encode()] for name, value in written.items()}


async def test_a_method_that_a_client_made_up_is_no_name(spans: SpanRecorder) -> None:
    root = start_request_span(spans.tracer, incoming_from("https://app.example.com/", method="BREW"))
    assert root is not None
    with root:
        name_builtin_span(PolicyRequest(method="BREW", host="auth.example.com", port=None, path="/.gate/admin/session/123/"))
    (ended,) = spans.ended()
    assert ended.name == "_OTHER /.gate/admin"
    assert ended.attributes["http.request.method"] == "_OTHER"


@pytest.mark.parametrize(("status", "is_error"), [(200, False), (403, False), (502, True)])
async def test_response_status_is_recorded_and_forwarded(spans: SpanRecorder, status: int, is_error: bool) -> None:
    sent: list[object] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    root = start_request_span(spans.tracer, incoming_from("https://app.example.com/", is_trusted=True))
    assert root is not None
    with root:
        await recording_status(root, send)({"type": "http.response.start", "status": status, "headers": []})
        await recording_status(root, send)({"type": "http.response.body", "body": b""})
    (ended,) = spans.ended()
    assert ended.attributes["http.response.status_code"] == status
    assert (not ended.status.is_ok) is is_error
    assert len(sent) == 2
