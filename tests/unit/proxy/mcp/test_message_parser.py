"""What the parser of MCP messages accepts, and that the SDK's server reads the same from it."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import jsonrpc_message_adapter

from authorize.policy.mcp_message import McpMessage
from proxy.mcp.mcp_errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, McpRejected
from proxy.mcp.message_parser import MAX_DEPTH, parse_message


def body(method: str = "tools/call", params: Any = None, **members: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {"name": "search"}, **members}
    return json.dumps(message, separators=(",", ":")).encode()  # as SDKs write it


@pytest.mark.parametrize(
    ("sent", "message", "id"),
    [
        (body(), McpMessage("tools/call", tool="search"), 1),
        (json.dumps(json.loads(body())).encode(), McpMessage("tools/call", tool="search"), 1),
        (body(params={"name": "a b ü"}, id="x"), McpMessage("tools/call", tool="a b ü"), "x"),
        (b' \r\n{"jsonrpc":"2.0","id":0,"method":"tools/list"}\n\t', McpMessage("tools/list"), 0),
        (
            b'{"jsonrpc":"2.0","id":1,"m\\u0065thod":"tools\\/call","params":{"n\\u0061me":"s\\u0065arch"}}',
            McpMessage("tools/call", "search"),
            1,
        ),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', McpMessage("notifications/initialized"), None),
        (body("prompts/get", {"name": "review"}), McpMessage("prompts/get", prompt="review"), 1),
        (body("resources/read", {"uri": "a:b"}), McpMessage("resources/read", resources=("a:b",)), 1),
        (body("resources/subscribe", {"uri": "a:b"}), McpMessage("resources/subscribe", resources=("a:b",)), 1),
        (body("resources/unsubscribe", {"uri": "a:b"}), McpMessage("resources/unsubscribe", resources=("a:b",)), 1),
        (
            body("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
            McpMessage("completion/complete", prompt="p"),
            1,
        ),
        (
            body("completion/complete", {"ref": {"type": "ref/resource", "uri": "a:{b}"}}),
            McpMessage("completion/complete", resources=("a:{b}",)),
            1,
        ),
        (
            body("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:b", "a:c"], "toolsListChanged": True}}),
            McpMessage("subscriptions/listen", resources=("a:b", "a:c")),
            1,
        ),
        (body("subscriptions/listen", {"notifications": {}}), McpMessage("subscriptions/listen"), 1),
        (body("tasks/get", {"Name": "x", "taskId": "t"}), McpMessage("tasks/get"), 1),
        (body("tasks/get", {"many": [[]] * (MAX_DEPTH + 1)}), McpMessage("tasks/get"), 1),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', McpMessage(), 1),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}', McpMessage(), None),
        (body(params={"name": "search", "arguments": {"NAME": 1e300, "big": 10**400}}), McpMessage("tools/call", "search"), 1),
    ],
)
def test_message_has_the_names_that_policy_compares(sent: bytes, message: McpMessage, id: Any) -> None:
    parsed = parse_message(sent)
    assert (parsed.message, parsed.id) == (message, id)


def nested(depth: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"b":[],"a":' + b"[" * (depth - 2) + b"1" + b"]" * (depth - 2) + b"}}"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"tools/call", PARSE_ERROR),
        (body() + b"{}", PARSE_ERROR),
        (body() + b"\0", PARSE_ERROR),
        (b"\xef\xbb\xbf" + body(), PARSE_ERROR),
        (body().decode().encode("utf-16"), PARSE_ERROR),
        (body().decode().encode("utf-16-le"), PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x\xff"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x\xed\xa0\x80"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":-Infinity}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1e999}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"1" * 5000 + b"}}", PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\\u0061me":"b"}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[{"b":{"c":1,"c":1}}]}}', PARSE_ERROR),
        (b"{'jsonrpc':'2.0'}", PARSE_ERROR),
        (b'{"jsonrpc":"2.0",/**/"id":1}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x",}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\n"}}', PARSE_ERROR),
        (nested(MAX_DEPTH + 1), PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b'"tools/call"', INVALID_REQUEST),
        (b"null", INVALID_REQUEST),
        (b"[" + body() + b"]", INVALID_REQUEST),
        (body(jsonrpc="1.0"), INVALID_REQUEST),
        (b'{"id":1,"method":"x"}', INVALID_REQUEST),
        (body(id=1.5), INVALID_REQUEST),
        (body(id=True), INVALID_REQUEST),
        (body(id=None), INVALID_REQUEST),
        (body(id=[1]), INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":""}}', INVALID_REQUEST),
        (body(id=2**53), INVALID_REQUEST),
        (body(id="x" * 300), INVALID_REQUEST),
        (body(result={}), INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', INVALID_REQUEST),
        (body("tools/Call"), INVALID_REQUEST),
        (body("tools/call "), INVALID_REQUEST),
        (body("tools/call\0"), INVALID_REQUEST),
        (body("x" * 129), INVALID_REQUEST),
        (body(""), INVALID_REQUEST),
        (body(method=1), INVALID_REQUEST),  # type: ignore[arg-type]
        (body(Method="tools/list"), INVALID_REQUEST),
        (body(**{"method\0": "tools/list"}), INVALID_REQUEST),
        (body(**{" method": "tools/list"}), INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"__proto__":{"method":"tools/call"}}', INVALID_REQUEST),
        (body(params={"name": "search", "__proto__": {"name": "delete"}}), INVALID_REQUEST),
        (body()[:-1] + b', "PARAM\\u017f": {"name": "delete"}}', INVALID_REQUEST),
        (body(params={"name": "search", "Name": "delete"}), INVALID_REQUEST),
        (body(params={"name": "search", "name\0x": "delete"}), INVALID_REQUEST),
        (body(params={"name": "search", "na\uff4de": "delete"}), INVALID_REQUEST),
        (body("resources/read", {"uri": "a:b", "URI": "a:c"}), INVALID_REQUEST),
        (body("completion/complete", {"ref": {"type": "ref/prompt", "name": "a", "NAME": "b"}}), INVALID_REQUEST),
        (body("subscriptions/listen", {"notifications": {"ResourceSubscriptions": ["a:b"]}}), INVALID_REQUEST),
        (body(params=["search"]), INVALID_PARAMS),
        (body(params={"arguments": {}}), INVALID_PARAMS),
        (body(params={"name": 1}), INVALID_PARAMS),
        (body(params={"name": ""}), INVALID_PARAMS),
        (body(params={"name": "search\0"}), INVALID_PARAMS),
        (body(params={"name": " search"}), INVALID_PARAMS),
        (body(params={"name": "search\u2028"}), INVALID_PARAMS),
        (body(params={"name": "x" * 1025}), INVALID_PARAMS),
        (body("resources/read", {"name": "x"}), INVALID_PARAMS),
        (body("resources/read", {"uri": "a: b"}), INVALID_PARAMS),
        (body("resources/read", {"uri": "a:\tb"}), INVALID_PARAMS),
        (body("resources/read", {"uri": "a:\x7fb"}), INVALID_PARAMS),
        (body("resources/read", {"uri": ""}), INVALID_PARAMS),
        (body("resources/read", {"uri": "a:" + "b" * 8192}), INVALID_PARAMS),
        (body("resources/read", {"uri": ["a:b"]}), INVALID_PARAMS),
        (body("completion/complete", {"argument": {}}), INVALID_PARAMS),
        (body("completion/complete", {"ref": {"type": "ref/tool", "name": "x"}}), INVALID_PARAMS),
        (body("subscriptions/listen", {"notifications": []}), INVALID_PARAMS),
        (body("subscriptions/listen", {"notifications": {"resourceSubscriptions": "a:b"}}), INVALID_PARAMS),
        (body("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:b"] * 1001}}), INVALID_PARAMS),
    ],
)
def test_invalid_and_ambiguous_bodies_are_rejected(sent: bytes, code: int) -> None:
    with pytest.raises(McpRejected) as rejected:
        parse_message(sent)
    assert (rejected.value.code, rejected.value.status) == (code, 400)


def test_error_has_the_id_as_soon_as_it_is_read() -> None:
    for sent, id in ((body(params={"name": 1}), 1), (body(id="x", jsonrpc="1"), "x"), (body(id=1.5), None), (b"{", None)):
        with pytest.raises(McpRejected) as rejected:
            parse_message(sent)
        assert rejected.value.rpc_id == id


def test_depth_is_bounded_exactly() -> None:
    assert parse_message(nested(MAX_DEPTH)).message == McpMessage("x")


_MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    lambda chance, sent: sent[: (at := chance.randrange(len(sent)))] + bytes([chance.randrange(256)]) + sent[at:],
    lambda chance, sent: sent[: (at := chance.randrange(len(sent)))] + sent[at + 1 :],
    lambda chance, sent: sent.replace(*chance.choice([(b"name", b"Name"), (b"call", b"list"), (b"1", b"1e2"), (b'"', b"'")]), 1),
    lambda chance, sent: sent.replace(b"{", b'{"' + chance.choice([b"name", b"method", b"id", b"x", b"uri"]) + b'":"y",', 1),
    lambda chance, sent: sent.replace(b"e", b"\\u0065", chance.randrange(1, 4)),
    lambda chance, sent: sent + chance.choice([b" ", b"\n", b"{}", b"\0", b",", b"]"]),
    lambda chance, sent: chance.choice([b"\xef\xbb\xbf", b"[", b" ", b"\xff"]) + sent,
    lambda chance, sent: sent.replace(b"search", chance.choice([b"\\u0000", b"\\ud83d\\ude00", b"\\ud800", "\u00e9".encode(), b"s\\/"]), 1),
)
_BODIES = (
    body(),
    body(params={"name": "search", "arguments": {"text": "é", "deep": [[1, 2], {"name": "x"}]}}),
    body("resources/read", {"uri": "docs://public/search"}),
    body("prompts/get", {"name": "search", "arguments": {}}),
    body("tools/list", {"cursor": "search"}),
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"text": "\\u00e9"}}}',
)


def test_accepted_bodies_are_read_equally_by_other_readers() -> None:
    chance, accepted, rejected = random.Random(36), 0, 0
    for _ in range(2000):
        sent = chance.choice(_BODIES)
        for _ in range(chance.randrange(1, 4)):
            sent = chance.choice(_MUTATIONS)(chance, sent)
        try:
            parsed = parse_message(sent)
        except McpRejected:
            rejected += 1
            continue
        accepted += 1
        other, first = json.loads(sent), json.loads(sent, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        assert other == first, "no duplicate key"
        sdk = jsonrpc_message_adapter.validate_json(sent, by_name=False).model_dump(by_alias=True, exclude_unset=True)
        for read in (other, sdk):
            params = read.get("params") or {}
            assert (parsed.message.method, parsed.id) == (read.get("method", ""), read.get("id"))
            if parsed.message.tool or parsed.message.prompt:
                assert (parsed.message.tool or parsed.message.prompt) == params["name"]
            if read.get("method") == "resources/read":
                assert parsed.message.resources == (params["uri"],)
            if read.get("method") == "tools/call":
                assert parsed.message.tool
    assert accepted > 300
    assert rejected > 300
