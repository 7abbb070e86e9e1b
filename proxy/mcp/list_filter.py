"""Filter of the lists that an MCP server returns: clients see the tools, prompts and resources that they may use."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from authorize.policy.mcp_message import McpMessage
from config.routes.policy.criteria import MCP_CRITERIA
from config.routes.route import Route
from foundation.errors import GateError, UpstreamError
from foundation.web.asgi_types import Header, Send
from proxy.mcp.event_stream import EventSplitter, EventTooLong, event_data, with_data
from proxy.mcp.mcp_errors import REFUSED
from proxy.mcp.mcp_json import parse_json, serialize_json

MAX_LIST_BYTES = 4 * 1024 * 1024
MAX_ITEMS = 10_000
EVENT_STREAM, JSON = b"text/event-stream", b"application/json"
LIST_METHODS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
LISTEN, RESOURCE_UPDATED = "subscriptions/listen", "notifications/resources/updated"
# Members of a result that are lists, and what names an item of each.
_NAMES = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}
# Headers that describe the bytes of the upstream's response.
_OF_BODY = frozenset({b"content-length", b"etag", b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges"})
_WITHOUT_BODY = (202, 204)
_UNREADABLE = "gate can't filter the list of the MCP server: {}"

Allowed = Callable[[Sequence[McpMessage]], Awaitable[Sequence[bool]]]


class Unfilterable(Exception):
    """A response can't be filtered; the message says why."""


def needs_filter(route: Route, method: str, message: McpMessage | None) -> bool:
    """Return whether the response to a request of this route may have a list that policy limits.

    An event stream of a GET may repeat a response to an earlier request, and it or that of a subscription reports changed resources.
    """
    is_list = method == "GET" or (message is not None and (message.method in LIST_METHODS or message.method == LISTEN))
    return is_list and not route.criteria.isdisjoint(MCP_CRITERIA)


def accept_identity(headers: Sequence[Header]) -> list[Header]:
    """Return the request headers with which the upstream sends its response uncompressed."""
    return [*(pair for pair in headers if pair[0] != b"accept-encoding"), (b"accept-encoding", b"identity")]


# enforcement-point: Authorization: Lists of MCP servers
class ListFilter:
    """ASGI `send` that filters the response of an MCP server.

    `allowed` decides on calls of the listed items.  `refuse` sends a denial in place of the response, for the reason that it gets; then
    `is_refused` is true.  Event streams are sent on event by event.
    """

    def __init__(
        self,
        send: Send,
        allowed: Allowed,
        refuse: Callable[[str], Awaitable[None]],
        rpc_id: str | int | None,
        *,
        only_streams: bool = False,
    ):
        self._send, self._allowed, self._refuse, self._rpc_id = send, allowed, refuse, rpc_id
        self._only_streams = only_streams  # of a GET, whose other responses are pages
        self._start: dict[str, Any] = {}
        self._body = bytearray()
        self._events: EventSplitter | None = None
        self._passes = False
        self.is_refused = False

    async def send(self, message: dict[str, Any]) -> None:
        if self.is_refused:
            if message["type"] == "http.response.body":  # stop reading
                raise UpstreamError("the rest of the response is not needed")
            return
        try:
            await self._filter(message)
        except Unfilterable as error:
            self.is_refused = True
            await self._refuse(_UNREADABLE.format(error))

    async def _filter(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            await self._on_start(message)
        elif self._passes or message["type"] != "http.response.body":
            await self._send(message)
        elif self._events is not None:
            await self._on_events(self._events, message)
        else:
            await self._on_document(message)

    async def _on_start(self, message: dict[str, Any]) -> None:
        headers = [(name.lower(), value) for name, value in message["headers"]]
        types = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
        codings = [value for name, value in headers if name == b"content-encoding" and value.strip().lower() != b"identity"]
        if types != [EVENT_STREAM] and (self._only_streams or types != [JSON]):
            if message["status"] < 300 and message["status"] not in _WITHOUT_BODY and not self._only_streams:
                raise Unfilterable("the response is neither JSON nor an event stream")
            self._passes = True
            await self._send(message)
            return
        if codings:
            raise Unfilterable("the response is compressed")
        self._start = {**message, "headers": [pair for pair in message["headers"] if pair[0].lower() not in _OF_BODY]}
        if types == [EVENT_STREAM]:
            self._events = EventSplitter(MAX_LIST_BYTES)
            await self._send(self._start)

    async def _on_document(self, message: dict[str, Any]) -> None:
        self._body += message.get("body", b"")
        if len(self._body) > MAX_LIST_BYTES:
            raise Unfilterable("the response is too large")
        if message.get("more_body", False):
            return
        body = await self._filtered(bytes(self._body))
        headers = [*self._start["headers"], (b"content-length", b"%d" % len(body))]
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def _on_events(self, events: EventSplitter, message: dict[str, Any]) -> None:
        try:
            filtered = [await self._filtered_event(event) for event in events.feed(message.get("body", b""))]
            is_more = message.get("more_body", False)
        except EventTooLong:
            filtered, is_more = [with_data(b"", self._error("an event is too large"))], False
            self.is_refused = True
        if filtered or not is_more:
            await self._send({"type": "http.response.body", "body": b"".join(filtered), "more_body": is_more})

    async def _filtered_event(self, event: bytes) -> bytes:
        data = event_data(event)
        if not data:
            return event
        try:
            body = await self._filtered(data)
        except Unfilterable as error:
            return with_data(event, self._error(str(error)))
        return event if body is data else with_data(event, body) if body else b""

    def _error(self, reason: str) -> bytes:
        error = {"code": REFUSED, "message": f"{_UNREADABLE.format(reason)}."}
        return json.dumps({"jsonrpc": "2.0", "id": self._rpc_id, "error": error}).encode()

    async def _filtered(self, body: bytes) -> bytes:
        """Return the JSON-RPC message with filtered lists; the same object if nothing changed, b"" for one to leave out."""
        try:
            document = parse_json(body)
        except (ValueError, RecursionError):
            raise Unfilterable("the response is not JSON that all readers read equally") from None
        if not isinstance(document, dict):
            raise Unfilterable("the response is not one JSON-RPC message")
        if document.get("method") == RESOURCE_UPDATED:
            return body if await self._may_read(document.get("params")) else b""
        result = document.get("result")
        if not isinstance(result, dict):
            return body
        has_changed = False
        for key in _NAMES:
            if key in result:
                has_changed |= await self._filter_list(key, result)
        return serialize_json(document) if has_changed else body

    async def _may_read(self, item: Any) -> bool:
        """Return whether the client may read the resource that a notification names."""
        name = _item_name("resources", item)
        try:
            return bool(name) and bool((await self._allowed([hypothetical_call("resources", name)]))[0])
        except GateError as error:
            raise Unfilterable("the policy can't be evaluated right now") from error

    async def _filter_list(self, key: str, result: dict[str, Any]) -> bool:
        items = result[key]
        if not isinstance(items, list) or len(items) > MAX_ITEMS:
            raise Unfilterable(f"{key} is not a list of at most {MAX_ITEMS} items")
        names = [_item_name(key, item) for item in items]
        known = [name for name in dict.fromkeys(names) if name]
        try:
            decisions = await self._allowed([hypothetical_call(key, name) for name in known])
        except GateError as error:
            raise Unfilterable("the policy can't be evaluated right now") from error
        usable = {name for name, is_allowed in zip(known, decisions, strict=True) if is_allowed}
        allowed = [item for item, name in zip(items, names, strict=True) if name in usable]
        is_shared = result.get("cacheScope", "private") != "private" or ("ttlMs" in result and "cacheScope" not in result)
        if is_shared:
            result["cacheScope"] = "private"  # another user has another list
        result[key] = allowed
        return is_shared or len(allowed) < len(items)


def _item_name(key: str, item: Any) -> str:
    """Return the name of a listed item, "" for one without a name."""
    name = item.get(_NAMES[key]) if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


def hypothetical_call(key: str, name: str) -> McpMessage:
    """Return the message that uses a listed item.

    A template is compared as it is written, as in completions for it; each resource is compared when it is read.
    """
    match key:
        case "tools":
            return McpMessage("tools/call", tool=name)
        case "prompts":
            return McpMessage("prompts/get", prompt=name)
        case _:
            return McpMessage("resources/read", resources=(name,))
