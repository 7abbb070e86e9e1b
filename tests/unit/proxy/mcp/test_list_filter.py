"""Lists of MCP servers: users see what they may use, and what can't be filtered is not passed."""

import json
from pathlib import Path
from typing import Any

import pytest

from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from foundation.errors import BrokerError, UpstreamError
from proxy.mcp.list_filter import MAX_LIST_BYTES, ListFilter, accept_identity, hypothetical_call, needs_filter
from tests.support.asgi import Answer
from tests.support.proxied import Proxied, proxied
from tests.support.upstream import RawUpstream
from tests.unit.authorize.builders import make_route

URL = "https://app.example.com/mcp"
POLICY = [
    {"deny": {"mcp_tool": {"not_in": ["search", "read_file"]}}},
    {"deny": {"mcp_resource": {"not_starts_with": "docs://public/"}}},
    {"deny": {"mcp_prompt": "destroy"}},
]
ROUTE = {"allow_public_unauthenticated_access": True, "mcp": {}, "policy": POLICY}
TOOLS = [{"name": "search"}, {"name": "delete_repo"}, {"name": "read_file", "title": "Ü"}]


def result(id: Any = 1, **members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": members}).encode()


def response(body: bytes, content_type: str = "application/json", *more: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", f"content-type: {content_type}", f"content-length: {len(body)}", *more, "", ""]
    return "\r\n".join(head).encode() + body


async def ask(gate: Proxied, method: str = "tools/list", verb: str = "POST") -> Answer:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode() if verb == "POST" else b""
    headers = {"accept": "application/json, text/event-stream", "accept-encoding": "gzip, br", "content-length": str(len(body))}
    return await gate.send(URL, body, method=verb, headers=headers | ({"content-type": "application/json"} if body else {}))


async def filtered(directory: Path, raw: bytes, method: str = "tools/list", verb: str = "POST", **keys: Any) -> Answer:
    async with proxied(directory, {**ROUTE, **keys}, canary=RawUpstream(raw)) as gate:
        answer = await ask(gate, method, verb)
        (received,) = gate.canary.requests
        assert received.values(b"accept-encoding") == [b"identity" if needs_it(keys) else b"gzip, br"]
        return answer


def needs_it(keys: dict[str, Any]) -> bool:
    return keys.get("policy", POLICY) is POLICY


@pytest.mark.parametrize(
    ("method", "before", "after"),
    [
        ("tools/list", {"tools": TOOLS, "nextCursor": "x"}, {"tools": [TOOLS[0], TOOLS[2]], "nextCursor": "x"}),
        ("tools/list", {"tools": []}, {"tools": []}),
        ("tools/list", {"tools": [{"title": "nameless"}, "text", {"name": 1}, {"name": ["search"]}, TOOLS[0]]}, {"tools": [TOOLS[0]]}),
        ("prompts/list", {"prompts": [{"name": "review"}, {"name": "destroy"}]}, {"prompts": [{"name": "review"}]}),
        (
            "resources/list",
            {"resources": [{"uri": "docs://public/a"}, {"uri": "docs://secret"}, {"uri": "docs://public/../secret"}]},
            {"resources": [{"uri": "docs://public/a"}]},
        ),
        (
            "resources/templates/list",
            {"resourceTemplates": [{"uriTemplate": "docs://public/{name}"}, {"uriTemplate": "docs://{area}/x"}, {"name": "x"}]},
            {"resourceTemplates": [{"uriTemplate": "docs://public/{name}"}]},
        ),
        ("tools/list", {"tools": TOOLS[:1], "cacheScope": "public", "ttlMs": 5}, {"tools": TOOLS[:1], "cacheScope": "private", "ttlMs": 5}),
        ("tools/list", {"tools": TOOLS[:1], "ttlMs": 5}, {"tools": TOOLS[:1], "ttlMs": 5, "cacheScope": "private"}),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_lists_have_only_what_the_policy_allows(
    method: str, before: dict[str, Any], after: dict[str, Any], is_stream: bool, tmp_path: Path
) -> None:
    if is_stream:
        event = b": ping\n\nevent: message\nid: 9\ndata: " + result(**before) + b"\n\n"
        answer = await filtered(tmp_path, response(event, "text/event-stream"), method)
        ping, found, rest = answer.body.split(b"\n\n")
        assert (ping, rest) == (b": ping", b"")
        fields = dict(line.split(b": ", 1) for line in found.split(b"\n"))
        assert (fields[b"event"], fields[b"id"]) == (b"message", b"9")
        document = json.loads(fields[b"data"])
    else:
        answer = await filtered(tmp_path, response(result(**before), "application/json", 'etag: "x"'), method)
        assert answer.values("content-length") == [str(len(answer.body))]
        assert (answer.values("etag"), answer.header("content-type")) == ([], "application/json")
        document = answer.json
    assert answer.status == 200
    assert document == {"jsonrpc": "2.0", "id": 1, "result": after}


@pytest.mark.parametrize(
    "raw",
    [
        response(result(tools=TOOLS)[:-1]),
        response(b"[" + result(tools=TOOLS) + b"]"),
        response(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[],"tools":[{"name":"delete_repo"}]}}'),
        response(b'{"jsonrpc":"2.0","id":1,"result":{"ttlMs":NaN,"tools":[{"name":"delete_repo"}]}}'),
        response(result(tools={"name": "delete_repo"})),
        response(result(tools=[{"name": str(number)} for number in range(10_001)])),
        response(result(tools=TOOLS), "text/plain"),
        response(result(tools=TOOLS), "application/json", "content-type: text/html"),
        response(result(tools=TOOLS), "application/json", "content-encoding: gzip"),
        response(result(tools=[{"name": "search", "description": "x" * MAX_LIST_BYTES}])),
        response(b"[" * 100_000),
    ],
)
async def test_lists_that_cannot_be_filtered_are_refused(raw: bytes, tmp_path: Path) -> None:
    answer = await filtered(tmp_path, raw)
    assert (answer.status, answer.starts, answer.json["id"], answer.json["error"]["code"]) == (502, 1, 1, -32010)
    assert b"delete_repo" not in answer.body


@pytest.mark.parametrize("data", [b"not JSON", result(tools="x"), result(tools=[{"name": "search", "x": "y" * MAX_LIST_BYTES}])])
async def test_events_that_cannot_be_filtered_are_errors(data: bytes, tmp_path: Path) -> None:
    answer = await filtered(tmp_path, response(b"data: " + data + b"\n\n", "text/event-stream"))
    (event, rest) = answer.body.split(b"\n\n")
    document = json.loads(event.removeprefix(b"data: "))
    assert (answer.status, rest, document["id"], document["error"]["code"]) == (200, b"", 1, -32010)


async def test_get_streams_are_filtered_and_pages_are_not(tmp_path: Path) -> None:
    event = b"id: 1\ndata: " + result(tools=TOOLS) + b"\n\n"
    stream = await filtered(tmp_path, response(event, "text/event-stream"), verb="GET")
    assert b"delete_repo" not in stream.body
    assert b"read_file" in stream.body
    for body, content_type in ((b"<p>delete_repo</p>", "text/html"), (result(tools=TOOLS), "application/json")):
        page = await filtered(tmp_path, response(body, content_type), verb="GET")
        assert page.body == body


@pytest.mark.parametrize(("verb", "method"), [("GET", "tools/list"), ("POST", "subscriptions/listen")])
async def test_changes_are_reported_of_resources_that_the_client_may_read(verb: str, method: str, tmp_path: Path) -> None:
    def updated(params: Any) -> bytes:
        return b"data: " + json.dumps({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}).encode() + b"\n\n"

    allowed, other = updated({"uri": "docs://public/a"}), b'data: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n'
    hidden = [updated(params) for params in ({"uri": "docs://secret"}, {"uri": "docs://public/../secret"}, {"uri": 1}, {}, None)]
    stream = await filtered(tmp_path, response(b"".join([*hidden, allowed, *hidden, other]), "text/event-stream"), method, verb)
    assert stream.body == allowed + other


@pytest.mark.parametrize(
    ("raw", "method", "keys"),
    [
        (response(result(tools=TOOLS)), "tools/list", {"policy": [{"deny": {"http_path": "/x"}}]}),
        (response(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', status="404 Not Found"), "tools/list", {}),
        (response(b"unavailable", "text/plain", status="503 Service Unavailable"), "tools/list", {}),
        (response(b"", "text/plain", status="202 Accepted"), "tools/list", {}),
        (response(result(tools=TOOLS[:1])), "tools/list", {}),
        (response(result(tools=TOOLS[:1]), "application/json", "content-encoding: identity"), "tools/list", {}),
        (response(b"event: message\r\ndata: " + result(tools=TOOLS[:1]) + b"\r\n\r\n", "text/event-stream"), "tools/list", {}),
    ],
)
async def test_other_responses_are_passed_as_they_are(raw: bytes, method: str, keys: dict[str, Any], tmp_path: Path) -> None:
    answer = await filtered(tmp_path, raw, method, **keys)
    assert raw.endswith(answer.body)
    assert str(answer.status) in raw.decode()[:20]


@pytest.mark.parametrize(
    ("method", "message", "expected"),
    [
        ("POST", McpMessage("tools/list"), True),
        ("POST", McpMessage("resources/templates/list"), True),
        ("POST", McpMessage("subscriptions/listen", resources=("docs://public/a",)), True),
        ("POST", McpMessage("tools/call", tool="x"), False),
        ("POST", None, False),
        ("GET", NO_MESSAGE, True),
        ("DELETE", NO_MESSAGE, False),
    ],
)
def test_only_lists_and_streams_of_limited_routes_are_filtered(method: str, message: McpMessage | None, expected: bool) -> None:
    assert needs_filter(make_route(mcp={}, policy=POLICY), method, message) is expected
    assert not needs_filter(make_route(mcp={}), method, message)


class Filtered:
    """A filter between a server and a client; `sent` and `refusals` are what the client gets."""

    def __init__(self, allowed: Any = None):
        self.sent: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.filter = ListFilter(self._send, allowed or self._search_only, self._refuse, 1)

    async def start(self, content_type: bytes) -> None:
        await self.filter.send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type)]})

    async def body(self, body: bytes, *, is_more: bool = True) -> None:
        await self.filter.send({"type": "http.response.body", "body": body, "more_body": is_more})

    @property
    def pieces(self) -> list[bytes]:
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def _refuse(self, reason: str) -> None:
        self.refusals.append(reason)

    async def _search_only(self, calls: Any) -> list[bool]:
        return [call.tool == "search" for call in calls]


async def unavailable(calls: Any) -> list[bool]:
    raise BrokerError("the store is unavailable")


async def test_list_in_pieces_is_filtered_when_it_is_complete() -> None:
    filtered, text = Filtered(), result(tools=TOOLS)
    await filtered.start(b"application/json")
    for piece in (text[:40], text[40:90], text[90:]):
        assert filtered.sent == []
        await filtered.body(piece)
    await filtered.body(b"", is_more=False)
    assert [json.loads(piece)["result"]["tools"] for piece in filtered.pieces] == [TOOLS[:1]]
    await filtered.filter.send({"type": "http.response.trailers", "headers": []})
    assert [message["type"] for message in filtered.sent] == ["http.response.start", "http.response.body", "http.response.trailers"]


async def test_events_are_sent_as_they_come() -> None:
    filtered, event = Filtered(), b"data: " + result(tools=TOOLS[:1]) + b"\n\n"
    await filtered.start(b"text/event-stream")
    for piece in (event, event[:9], event[9:]):
        await filtered.body(piece)
    assert filtered.pieces == [event, event]
    await filtered.body(b"data: incomplete", is_more=False)
    assert [message["more_body"] for message in filtered.sent[1:]] == [True, True, False]


@pytest.mark.parametrize("content_type", [b"application/json", b"text/event-stream"])
async def test_nothing_is_read_after_a_list_that_is_too_large(content_type: bytes) -> None:
    filtered = Filtered()
    await filtered.start(content_type)
    await filtered.body(b"x" * (MAX_LIST_BYTES + 1))
    count = len(filtered.sent)
    with pytest.raises(UpstreamError):
        await filtered.body(b"data: {}\n\n")
    assert len(filtered.sent) == count


@pytest.mark.parametrize(
    "message", [{"result": {"tools": TOOLS}}, {"method": "notifications/resources/updated", "params": {"uri": "docs://public/a"}}]
)
async def test_lists_without_a_decision_are_refused(message: dict[str, Any]) -> None:
    text = json.dumps({"jsonrpc": "2.0", **message}).encode()
    document, stream = Filtered(unavailable), Filtered(unavailable)
    await document.start(b"application/json")
    await document.body(text, is_more=False)
    assert (len(document.refusals), document.sent) == (1, [])
    await stream.start(b"text/event-stream")
    await stream.body(b"data: " + text + b"\n\n")
    (event,) = stream.pieces
    assert json.loads(event.removeprefix(b"data: "))["error"]["code"] == -32010


async def test_change_of_a_resource_without_a_name_is_not_reported() -> None:
    async def everything(calls: Any) -> list[bool]:
        return [True] * len(calls)

    filtered = Filtered(everything)
    await filtered.start(b"text/event-stream")
    for params in ({}, {"uri": ""}, {"uri": 1}):
        await filtered.body(b"data: " + json.dumps({"method": "notifications/resources/updated", "params": params}).encode() + b"\n\n")
    assert b"".join(filtered.pieces) == b""


def test_item_is_used_by_the_call_that_its_list_is_for() -> None:
    assert hypothetical_call("tools", "a") == McpMessage("tools/call", tool="a")
    assert hypothetical_call("prompts", "a") == McpMessage("prompts/get", prompt="a")
    assert hypothetical_call("resources", "a:b") == McpMessage("resources/read", resources=("a:b",))
    assert hypothetical_call("resourceTemplates", "a:{b}") == McpMessage("resources/read", resources=("a:{b}",))
    assert accept_identity([(b"accept-encoding", b"br"), (b"a", b"b")]) == [(b"a", b"b"), (b"accept-encoding", b"identity")]
