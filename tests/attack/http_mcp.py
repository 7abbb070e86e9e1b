"""B54: can a client of an MCP server call a tool that the policy denies, by a message that the server reads differently?

The route allows one tool, `search`.  Each request that reaches the upstream is parsed by parsers as lenient as those of some servers.
None may find a call of another tool in its body or headers.
"""

import base64
import json
import random
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from tests.attack.http_canary import Hit, fold
from tests.attack.run import ACCEPTED, REFUSED, SEED, Case, Indexed, Outcome, attack, expect
from tests.attack.target import Target, new_marker

CASES = 20_000
ALLOWED, DENIED = "search", "delete_repo"
PATHS = (b"/mcp", b"/mcp/", b"/mcp/x", b"//mcp", b"/%6dcp", b"/x/../mcp", b"/mcp;a=b", b"/MCP", b"/other", b"/mcp%2F", b"/mcp?x=1")
METHODS = (b"POST",) * 8 + (b"PUT", b"PATCH", b"GET", b"DELETE", b"QUERY")
TYPES = (b"application/json",) * 10 + (
    *(b"application/json; charset=utf-8", b"application/json; charset=utf-16", b"application/json; charset=utf-7", b"text/plain", b""),
    *(b"application/json-rpc", b"application/x-www-form-urlencoded", b"application/json, text/plain"),
)
HEADERS = (
    *(b"Mcp-Method: tools/list", b"Mcp-Method: tools/call", b"Mcp-Name: search", b"Mcp-Name: delete_repo", b"Mcp_Name: delete_repo"),
    *(b"mcp.method: tools/call", b"Mcp-Name: =?base64?" + base64.b64encode(b"delete_repo") + b"?=", b"Mcp-Name: search, delete_repo"),
    *(b"Content-Encoding: deflate", b"Content_Type: text/plain", b"Content-Type: application/json", b"Origin: https://evil.example"),
    *(b"Origin: null", b"X-HTTP-Method-Override: GET", b"Connection: mcp-name"),
)
Mutation = Callable[[random.Random, bytes], bytes]


def message(tool: str, **members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}, **members}).encode()


def _hide(chance: random.Random, body: bytes) -> bytes:
    """Put a second, denied value beside an allowed one, under a key that some reader takes for the same."""
    key, value = chance.choice([("name", DENIED), ("method", "tools/call"), ("params", {"name": DENIED})])
    spelling = chance.choice([key, key.upper(), key.title(), f"{key}\0", f" {key}", key.replace("m", "\uff4d"), key.replace("s", "\u017f")])
    member = f"{json.dumps(spelling)}: {json.dumps(value)}, ".encode()
    if chance.random() < 0.5:
        member = member.replace(key[0].encode(), b"\\u%04x" % ord(key[0]), 1)
    places = [place for place, byte in enumerate(body) if byte == ord("{")]
    place = chance.choice(places) + 1 if places else 0
    return body[:place] + member + body[place:]


def _swap(before: bytes, *after: bytes) -> Mutation:
    return lambda chance, body: body.replace(before, chance.choice(after), 1)


def _append(chance: random.Random, body: bytes) -> bytes:
    return body + chance.choice([b"", b"\n", b"\0", b","]) + message(DENIED)


def _wrap(chance: random.Random, body: bytes) -> bytes:
    before, after = chance.choice(
        [(b"[", b"]"), (b"[", b"," + message(DENIED) + b"]"), (b"\xef\xbb\xbf", b""), (b"/**/", b""), (b"\x1e", b"\n")]
    )
    return before + body + after


def _encode(chance: random.Random, body: bytes) -> bytes:
    return body.decode("utf-8", "replace").encode(chance.choice(["utf-16", "utf-16-le", "utf-32", "utf-7", "latin-1"]), "replace")


def _insert(chance: random.Random, body: bytes) -> bytes:
    place = chance.randrange(len(body) + 1)
    return body[:place] + bytes([chance.randrange(256)]) + body[place:]


def _cut(chance: random.Random, body: bytes) -> bytes:
    place = chance.randrange(len(body) + 1)
    return body[:place] + body[place + 1 :]


MUTATIONS: tuple[Mutation, ...] = (
    *(_hide, _hide, _hide, _append, _wrap, _encode, _insert, _cut),
    _swap(b"search", b"delete_repo", b"Search", b"search\\u0000", b" delete_repo", b"\\ud800"),
    _swap(b"tools/call", b"Tools/Call", b"tools/call ", b"tools/list", b"tools\\/call", b"tools/call\\u0000"),
    _swap(b'"id": 1', b'"id": 1e0', b'"id": null', b'"id": NaN', b'"id": {"a": 1, "a": 2}', b'"result": {}'),
    _swap(b"{}", b"[" * 80 + b"]" * 80, b"NaN", b'{"name": "delete_repo"}', b'"x"', b"1e999"),
    lambda chance, body: zlib.compress(body),
)


@attack("B54", "MCP messages that a server reads differently")
def messages(target: Target) -> Indexed:
    return Indexed(CASES, lambda index: Case(f"message {index}", partial(_sent, index)))


@attack("B54", "calls of a denied tool on every path and method")
def denied_calls(target: Target) -> Iterator[Case]:
    for path in PATHS:
        for method in sorted(set(METHODS)):
            for kind in sorted(set(TYPES)):
                yield Case(f"{method!r} {path!r} {kind!r}", partial(_denied, method, path, kind))


async def _denied(method: bytes, path: bytes, kind: bytes, target: Target) -> Outcome:
    marker, body = new_marker(), message(DENIED)
    headers = b"Content-Type: %b\r\nContent-Length: %d\r\n" % (kind, len(body))
    data = target.request(method, path, "mcp", marker=marker, headers=headers) + body
    answer = await target.send(data, methods=(method,))
    expect(not target.ledger.hits(marker), "an upstream saw the call of a denied tool", data)
    expect(answer.statuses and answer.statuses[0] in (400, 403, 404), f"answered {answer.raw[:100]!r}", data)
    return REFUSED


async def _sent(index: int, target: Target) -> Outcome:
    chance, marker = random.Random(f"{SEED} mcp {index}"), new_marker()
    body = message(chance.choice([ALLOWED, ALLOWED, DENIED]))
    for _ in range(chance.randrange(0, 4)):
        body = chance.choice(MUTATIONS)(chance, body)
    path, method = (chance.choice(PATHS), chance.choice(METHODS)) if chance.random() < 0.3 else (b"/mcp", b"POST")
    lines = [b"Content-Type: " + chance.choice(TYPES), *chance.sample(HEADERS, chance.choice([0, 0, 1, 2]))]
    if chance.random() < 0.5:
        framing, content = b"Content-Length: %d\r\n" % len(body), body
    else:
        framing, content = b"Transfer-Encoding: chunked\r\n", _chunked(chance, body)
    headers = framing + b"".join(line + b"\r\n" for line in lines)
    data = target.request(method, path, "mcp", marker=marker, headers=headers) + content
    answer = await target.send(data, methods=(method,))
    hits = target.ledger.hits(marker)
    for hit in hits:
        expect(bytes(hit.body) == body, "the upstream got other bytes than the client sent", data)
        found = [name for name in _calls(hit) if name != ALLOWED]
        expect(not found, f"some server would call {found[:3]}", data)
    # 502: the canary's response to `tools/list` has no list that gate could filter.
    expect(answer.statuses and (bool(hits) is (answer.statuses[0] in (200, 502))), f"answered {answer.raw[:100]!r}, {len(hits)} hits", data)
    return ACCEPTED if hits else REFUSED


def _chunked(chance: random.Random, body: bytes) -> bytes:
    size = chance.choice([1, 7, 64, max(1, len(body))])
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def _calls(hit: Hit) -> Iterator[str]:
    """Yield the tools that some server would call for this request."""
    content = bytes(hit.body)
    with_inflated = [content]
    with suppress(zlib.error):
        with_inflated.append(zlib.decompress(content))
    for raw in with_inflated:
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"):
            try:
                text = raw.decode(encoding)
            except ValueError:
                continue
            for is_last in (True, False):
                for document in _documents(text, is_last=is_last):
                    yield from _tools(document)
    headers = [(fold(name), value.decode("latin-1")) for name, value in hit.headers]
    if not content or (b"mcp-method", "tools/call") not in headers:
        return
    for name, value in headers:
        if name == b"mcp-name":
            yield base64.b64decode(value[9:-2]).decode("latin-1") if value.startswith("=?base64?") else value


def _documents(text: str, *, is_last: bool) -> Iterator[Any]:
    """Yield every JSON value in the text, one after the other, whatever is between them."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """As readers that ignore case, spaces, compatible characters and what follows a NUL."""
        folded = [(unicodedata.normalize("NFKC", key.partition("\0")[0]).strip().casefold(), value) for key, value in pairs]
        return dict(folded if is_last else reversed(folded))

    decoder, place = json.JSONDecoder(object_pairs_hook=members, strict=False), 0
    while (start := min((found for mark in "{[" if (found := text.find(mark, place)) >= 0), default=-1)) >= 0:
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            place = start + 1
            if place > 64:  # what begins later is inside the first value, which no reader took
                return
            continue
        yield value


def _tools(document: Any) -> Iterator[str]:
    for each in document if isinstance(document, list) else [document]:
        if not isinstance(each, dict) or not isinstance(each.get("params"), dict):
            continue
        method, name = each.get("method"), each["params"].get("name")
        if isinstance(method, str) and method.partition("\0")[0].strip().casefold() == "tools/call" and isinstance(name, str):
            yield name.partition("\0")[0].strip()
