"""Requests to MCP endpoints: what reaches the upstream is what policy has read, byte for byte."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from authorize.policy.reasons import Reason
from proxy.mcp.endpoint_reader import MAX_READERS_PER_CLIENT
from proxy.mcp.mcp_errors import HEADER_MISMATCH, INVALID_REQUEST, PARSE_ERROR, REFUSED
from tests.support.asgi import CURL, NAVIGATION, Answer, chunked_receive, incoming_from
from tests.support.proxied import Proxied, proxied

URL = "https://app.example.com/mcp"
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
PUBLIC = {"allow_public_unauthenticated_access": True}
ROUTE = {**PUBLIC, "mcp": {"path": "/mcp"}, "policy": [{"deny": {"mcp_tool": {"not_in": ["search"]}}}]}


def call(tool: str = "search", id: Any = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, **params}}).encode()


async def send(gate: Proxied, *body: bytes, url: str = URL, method: str = "POST", **headers: str) -> Answer:
    """Send a body with its length, or in chunks."""
    framing = {"content-length": str(len(body[0]))} if len(body) == 1 else {"transfer-encoding": "chunked"}
    sent = JSON | framing | {name.replace("_", "-"): value for name, value in headers.items()}
    return await gate.send(url, *body, method=method, headers=sent)


@pytest.mark.parametrize("body", [(call(),), (call()[:10], call()[10:50], call()[50:])])
async def test_upstream_gets_the_bytes_that_policy_read(body: tuple[bytes, ...], tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        assert (await send(gate, *body)).status == 200
        (received,) = gate.canary.requests
    assert received.body == b"".join(body) == call()


async def test_refused_call_has_a_json_rpc_error_and_reaches_no_upstream(tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        answer = await send(gate, call("delete_repo", id="x"))
        assert gate.canary.connections == 0
    assert (answer.status, answer.header("content-type")) == (403, "application/json")
    error = answer.json["error"]
    assert (answer.json["jsonrpc"], answer.json["id"], error["code"]) == ("2.0", "x", REFUSED)
    reason = error["data"].pop("reason")
    assert "delete_repo" in reason
    assert Reason.DENIED_BY_POLICY.value in reason
    assert error["message"].startswith(reason)
    assert error["data"] == {"status": 403, "rule": "policy[0].deny", "request_id": "f" * 32}


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"", {}, 400, PARSE_ERROR),
        (call() + b"x", {}, 400, PARSE_ERROR),
        (b"[" + call() + b"]", {}, 400, INVALID_REQUEST),
        (call(), {"content_type": "text/plain"}, 400, INVALID_REQUEST),
        (call(), {"content_type": ""}, 400, INVALID_REQUEST),
        (call(), {"content_type": "application/json; charset=utf-16"}, 400, INVALID_REQUEST),
        (call(), {"content_type": "application/json; charset=utf-8; charset=utf-16"}, 400, INVALID_REQUEST),
        (call(), {"content_type": "application/json; boundary=x"}, 400, INVALID_REQUEST),
        (call(), {"content_type": "application/json; version=utf-8"}, 400, INVALID_REQUEST),
        (call(), {"content_encoding": "gzip"}, 400, PARSE_ERROR),
        (call(), {"content_encoding": "identity"}, 400, PARSE_ERROR),
        (call(), {"content_encoding": "gzip", "content_language": "en"}, 400, PARSE_ERROR),
        (call(x="y" * 262_144), {}, 413, INVALID_REQUEST),
        (call(), {"mcp_method": "tools/list"}, 400, HEADER_MISMATCH),
        (call(), {"mcp_name": "delete_repo"}, 400, HEADER_MISMATCH),
        (call(), {"mcp_name": "Search"}, 400, HEADER_MISMATCH),
        (call(title="delete_repo"), {"mcp_name": "delete_repo"}, 400, HEADER_MISMATCH),
        (call(), {"mcp_name": "=?base64?" + base64.b64encode(b"delete_repo").decode() + "?="}, 400, HEADER_MISMATCH),
        (call(), {"mcp_name": "=?base64?c2VhcmNo=?="}, 400, HEADER_MISMATCH),
        (call(), {"mcp_name": "=?base64?c2VhcmN?="}, 400, HEADER_MISMATCH),
        (call(), {"mcp_name": "se\u00e4rch"}, 400, HEADER_MISMATCH),
        (call(), {"origin": "https://evil.example"}, 403, REFUSED),
    ],
)
async def test_invalid_requests_are_refused(body: bytes, headers: dict[str, str], status: int, code: int, tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        answer = await send(gate, body, **headers)
        assert gate.canary.connections == 0
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": 'Application/JSON ; charset="UTF-8"'},
        {"mcp_method": "tools/call", "mcp_name": "search", "mcp_protocol_version": "2026-07-28", "mcp_session_id": "x"},
        {"mcp_name": "=?base64?c2VhcmNo?="},
        {"origin": "https://app.example.com"},
    ],
)
async def test_valid_headers_are_forwarded(headers: dict[str, str], tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        assert (await send(gate, call(), **headers)).status == 200
        (received,) = gate.canary.requests
    for name, value in headers.items():
        assert received.values(name.replace("_", "-").encode()) == [value.encode()]


@pytest.mark.parametrize("name", ["Mcp_Method", "mcp.method", "Mcp-Method"])
async def test_second_header_of_another_spelling_is_a_mismatch(name: str, tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        answer = Answer()
        incoming = incoming_from(URL, method="POST", headers=JSON | {"content-length": str(len(call())), "mcp-method": "tools/call"})
        incoming.scope["headers"].append((name.lower().encode(), b"tools/call"))
        await gate.plane(incoming, chunked_receive(call()), answer.send)
    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (400, 1, HEADER_MISMATCH)


@pytest.mark.parametrize("name", ["mcp_method", "mcp.method"])
async def test_header_of_another_spelling_alone_is_a_mismatch(name: str, tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        answer = await gate.send(URL, call(), method="POST", headers=JSON | {"content-length": str(len(call())), name: "tools/call"})
        assert (answer.status, answer.json["error"]["code"], gate.canary.connections) == (400, HEADER_MISMATCH, 0)


async def test_other_headers_of_mcp_may_be_repeated(tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        answer = Answer()
        incoming = incoming_from(URL, method="POST", headers=JSON | {"content-length": str(len(call())), "mcp-param-a": "1"})
        incoming.scope["headers"].append((b"mcp-param-a", b"2"))
        await gate.plane(incoming, chunked_receive(call()), answer.send)
    assert answer.status == 200


@pytest.mark.parametrize(("url", "status"), [("https://other.example.com/", 404), ("https://plain.example.com/", 200)])
async def test_requests_without_a_server_are_not_read(url: str, status: int, tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE, {**PUBLIC, "from": "https://plain.example.com"}) as gate:
        assert (await send(gate, b"no JSON", url=url)).status == status


@pytest.mark.parametrize("name", ["content_type", "content.type", "content_encoding"])
async def test_header_that_an_application_takes_for_one_of_the_body_is_refused(name: str, tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        answer = await gate.send(URL, call(), method="POST", headers=JSON | {"content-length": str(len(call())), name: "x"})
        assert (answer.status, gate.canary.connections) == (400, 0)


async def test_client_that_leaves_within_its_message_is_no_error(tmp_path: Path) -> None:
    incoming = incoming_from(URL, method="POST", headers=JSON | {"content-length": str(len(call()))})
    messages = [{"type": "http.request", "body": call()[:5], "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async with proxied(tmp_path, ROUTE) as gate:
        with pytest.raises(ConnectionError):
            await gate.plane(incoming, receive, Answer().send)
        assert gate.canary.connections == 0
        assert (await send(gate, call()[:5], call()[5:])).status == 200


async def test_name_header_of_other_methods_repeats_a_parameter(tmp_path: Path) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": "t1", "n": 2}}).encode()
    async with proxied(tmp_path, ROUTE) as gate:
        assert (await send(gate, body, mcp_name="t1")).status == 200
        assert (await send(gate, body, mcp_name="t2")).status == 400
        assert (await send(gate, body, mcp_name="=?base64?x?=")).status == 400, "malformed, and no text that n could equal"


@pytest.mark.parametrize(
    ("method", "url", "body", "status"),
    [
        ("GET", URL, b"", 200),  # an event stream
        ("DELETE", URL, b"", 200),  # a session
        ("GET", "https://app.example.com/page", b"", 200),
        ("GET", URL, call("delete_repo"), 403),
        ("PUT", URL, call("delete_repo"), 403),
        ("POST", URL + "/", call("delete_repo"), 403),
        ("POST", "https://app.example.com/other", call("delete_repo"), 403),
        ("POST", "https://app.example.com/other", call(), 403),
        ("PUT", URL, b"not JSON", 400),
    ],
)
async def test_every_body_of_the_route_is_read_or_unknown(method: str, url: str, body: bytes, status: int, tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        answer = await send(gate, body, url=url, method=method)
        assert (answer.status, gate.canary.connections > 0) == (status, status == 200)


async def test_browser_gets_pages_and_routes_without_mcp_are_not_read(tmp_path: Path) -> None:
    async with proxied(tmp_path, {**ROUTE, "prefix": "/mcp"}, PUBLIC) as gate:
        plain = await send(gate, b"not JSON", url="https://app.example.com/form", content_type="text/plain")
    assert plain.status == 200
    async with proxied(tmp_path, {"allow_any_authenticated_user": True, "mcp": {}}) as gate:
        page = await gate.send(URL, headers=NAVIGATION)
        script = await gate.send(URL, headers=CURL)
    assert (page.status, page.values("content-type")) == (302, ["text/plain"])
    assert (script.status, script.json["id"], script.header("www-authenticate").partition(" ")[0]) == (401, None, "Bearer")


async def test_slow_bodies_of_one_client_are_bounded(tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        readers = gate.plane._mcp._readers
        for _ in range(MAX_READERS_PER_CLIENT):
            assert readers.acquire("127.0.0.1")
        assert (await send(gate, call()[:5], call()[5:])).status == 429
        assert (await send(gate, call())).status == 200, "a body that has arrived needs no place"
        readers.release("127.0.0.1")
        for _ in range(3):
            assert (await send(gate, call()[:5], call()[5:])).status == 200
            assert (await send(gate, call()[:5], b"x" * 300_000)).status == 413
