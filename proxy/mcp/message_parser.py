"""Strict parser of MCP messages (JSON-RPC 2.0).

Policy and the upstream must read the same message, so a body that two JSON readers may read differently is rejected: duplicate keys,
keys that differ only in case, trailing data, batches, other encodings than UTF-8, NaN, large ids, and deep nesting.
"""

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from authorize.policy.mcp_message import McpMessage
from proxy.mcp.mcp_errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, McpRejected
from proxy.mcp.mcp_json import AmbiguousJson, parse_json

MAX_DEPTH = 64
MAX_ID = 2**53 - 1  # readers with doubles round larger numbers
MAX_ID_LENGTH, MAX_NAME_LENGTH, MAX_URI_LENGTH, MAX_URIS = 256, 1024, 8192, 1000  # characters

_METHOD = re.compile(r"[!-~]{1,128}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SPACES = re.compile(r"\s")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_PARAMS = frozenset({"name", "uri", "ref", "notifications"})
_REFERENCE = frozenset({"type", "name", "uri"})
_FILTER = frozenset({"resourceSubscriptions"})
# Methods whose parameters policy compares.
_NAMED_METHODS = frozenset(
    (
        *("tools/call", "prompts/get", "resources/read", "resources/subscribe", "resources/unsubscribe"),
        *("completion/complete", "subscriptions/listen"),
    )
)


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """Message of a body.  `id` is None for a notification.  `params` are its parameters, which headers must repeat."""

    message: McpMessage
    id: str | int | None
    params: dict[str, Any]


# enforcement-point: Requests: MCP messages
def parse_message(body: bytes) -> ParsedMessage:
    """Return the message of a body.  Raises McpRejected if it is invalid or ambiguous."""
    value = _parse_body(body)
    if isinstance(value, list):
        raise McpRejected(INVALID_REQUEST, "batches of messages are not supported. Send each message in a separate request")
    if not isinstance(value, dict):
        raise McpRejected(INVALID_REQUEST, "the body is not a JSON object")
    _require_exact_keys(value, _MEMBERS, "the message")
    id = _parse_id(value)
    try:
        return _parse_members(value, id)
    except McpRejected as error:
        error.rpc_id = id
        raise


def _parse_body(body: bytes) -> Any:
    try:
        value = parse_json(body)
        if b"\\" in body and _SURROGATE_ESCAPE.search(body):  # a lone one is no character, and readers replace it in different ways
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        is_deep = _has_more_brackets(body, MAX_DEPTH) and _is_deeper(value, MAX_DEPTH)
    except RecursionError:
        is_deep = True
    except ValueError as error:
        reason = f"the body {error}" if isinstance(error, AmbiguousJson) else "the body is not JSON in UTF-8"
        raise McpRejected(PARSE_ERROR, reason) from None
    if is_deep:
        raise McpRejected(PARSE_ERROR, f"the body is nested deeper than {MAX_DEPTH} levels")
    return value


def _has_more_brackets(body: bytes, limit: int) -> bool:
    """Return whether a text has more than `limit` opening brackets.  This takes a seventh of the time of counting all."""
    found = 0
    for bracket in (b"{", b"["):
        at = body.find(bracket)
        while at >= 0 and found <= limit:
            found, at = found + 1, body.find(bracket, at + 1)
    return found > limit


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            part
            for each in level
            for part in (each.values() if type(each) is dict else each if type(each) is list else ())
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return False
    return True


def _require_exact_keys(members: dict[str, Any], known: frozenset[str], place: str) -> None:
    """Reject keys that a reader may take for a known one.

    Some readers ignore case or normalize characters, C strings end at a NUL, and `__proto__` of a copied JavaScript object adds its
    members.
    """
    folded = _FOLDED[known]
    for key in members:
        if key not in known and (_fold(key) in folded or "\0" in key or key == "__proto__"):
            raise McpRejected(INVALID_REQUEST, f"{place} has a key that some readers take for another one")


def _fold(key: str) -> str:
    plain = key if key.isascii() else unicodedata.normalize("NFKC", key)
    return _CONTROLS.sub("", plain).strip().casefold()


_FOLDED = {known: frozenset(map(str.casefold, known)) for known in (_MEMBERS, _PARAMS, _REFERENCE, _FILTER)}


def _parse_id(value: dict[str, Any]) -> str | int | None:
    id = value.get("id")
    if isinstance(id, str) and len(id) <= MAX_ID_LENGTH:
        return id
    if isinstance(id, int) and not isinstance(id, bool) and abs(id) <= MAX_ID:
        return id
    if "id" in value and not (id is None and "error" in value):  # an error whose request could not be read
        raise McpRejected(INVALID_REQUEST, "the id is neither text nor a whole number that all readers represent exactly")
    return None


def _parse_members(value: dict[str, Any], id: str | int | None) -> ParsedMessage:
    if value.get("jsonrpc") != "2.0":
        raise McpRejected(INVALID_REQUEST, "jsonrpc is not 2.0")
    is_response = "result" in value or "error" in value
    if is_response is ("method" in value) or ("result" in value and "error" in value):
        raise McpRejected(INVALID_REQUEST, "the message is not exactly one of request, notification and response")
    if is_response:
        return ParsedMessage(McpMessage(), id, {})
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise McpRejected(INVALID_REQUEST, "the method is not text of visible ASCII characters")
    if method not in _NAMED_METHODS and method.casefold() in _NAMED_METHODS:
        raise McpRejected(INVALID_REQUEST, "the method differs from a known one only in case")
    if not isinstance(params, dict):
        raise McpRejected(INVALID_PARAMS, "params is not an object")
    if method not in _NAMED_METHODS:
        return ParsedMessage(McpMessage(method), id, params)
    _require_exact_keys(params, _PARAMS, "params")
    return ParsedMessage(_parse_named(method, params), id, params)


def _parse_named(method: str, params: dict[str, Any]) -> McpMessage:
    match method:
        case "tools/call":
            return McpMessage(method, tool=_parse_name(params, "params.name"))
        case "prompts/get":
            return McpMessage(method, prompt=_parse_name(params, "params.name"))
        case "completion/complete":
            return _parse_completion(params)
        case "subscriptions/listen":
            return McpMessage(method, resources=_parse_subscriptions(params))
        case _:
            return McpMessage(method, resources=(_parse_uri(params.get("uri"), "params.uri"),))


def _parse_completion(params: dict[str, Any]) -> McpMessage:
    reference = params.get("ref")
    if not isinstance(reference, dict):
        raise McpRejected(INVALID_PARAMS, "params.ref is not an object")
    _require_exact_keys(reference, _REFERENCE, "params.ref")
    match reference.get("type"):
        case "ref/prompt":
            return McpMessage("completion/complete", prompt=_parse_name(reference, "params.ref.name"))
        case "ref/resource":
            return McpMessage("completion/complete", resources=(_parse_uri(reference.get("uri"), "params.ref.uri"),))
        case _:
            raise McpRejected(INVALID_PARAMS, "params.ref.type is neither ref/prompt nor ref/resource")


def _parse_subscriptions(params: dict[str, Any]) -> tuple[str, ...]:
    chosen = params.get("notifications", {})
    if not isinstance(chosen, dict):
        raise McpRejected(INVALID_PARAMS, "params.notifications is not an object")
    _require_exact_keys(chosen, _FILTER, "params.notifications")
    uris = chosen.get("resourceSubscriptions") or []
    if not isinstance(uris, list) or len(uris) > MAX_URIS:
        raise McpRejected(INVALID_PARAMS, f"params.notifications.resourceSubscriptions is not a list of at most {MAX_URIS} URIs")
    return tuple(_parse_uri(uri, "params.notifications.resourceSubscriptions") for uri in uris)


def _parse_name(members: dict[str, Any], place: str) -> str:
    name = members.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or _CONTROLS.search(name) or name != name.strip():
        raise McpRejected(INVALID_PARAMS, f"{place} is not a name: text without control characters, and without spaces at its ends")
    return name


def _parse_uri(uri: Any, place: str) -> str:
    if not isinstance(uri, str) or not 0 < len(uri) <= MAX_URI_LENGTH or _CONTROLS.search(uri) or _SPACES.search(uri):
        raise McpRejected(INVALID_PARAMS, f"{place} is not a URI: text without spaces and control characters")
    return uri
