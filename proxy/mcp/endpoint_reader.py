"""Reader of MCP endpoints: reads the message of a request before the decision, so that policy sees what the upstream gets."""

import base64
import binascii
import re
from collections.abc import Callable, Iterable

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.mcp_message import NO_MESSAGE
from authorize.policy.policy_request import PolicyRequest
from config.options import Options
from config.routes.route_mcp import McpSettings, is_mcp_endpoint
from foundation.client_network import ConcurrencyLimit, client_network
from foundation.web.asgi_types import Header, Receive
from proxy.incoming_request import IncomingRequest
from proxy.mcp.buffered_body import BodyTooLong, read_body, replay_body
from proxy.mcp.mcp_errors import HEADER_MISMATCH, INVALID_REQUEST, PARSE_ERROR, REFUSED, McpRejected
from proxy.mcp.mcp_origin import client_origins, is_preflight, require_allowed_origin
from proxy.mcp.message_parser import ParsedMessage, parse_message
from proxy.rewriting.request_headers import framing
from proxy.rewriting.reserved_headers import fold

JSON = "application/json"
_PLAIN_JSON = [JSON.encode()]
# Messages that do not arrive in one piece and are read concurrently: of all clients, and of one network.
MAX_READERS, MAX_READERS_PER_CLIENT = 512, 64
# The header repeats this parameter (MCP 2026-07-28).  For other methods, it repeats any parameter.
_NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BASE64 = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_METHOD_HEADER, _NAME_HEADER = b"mcp-method", b"mcp-name"


class McpEndpointReader:
    """Reader of the requests to MCP routes.  `match` finds the route, `is_route_origin` knows the origins of routes."""

    def __init__(self, options: Options, match: Callable[[PolicyRequest], CompiledRoute | None], is_route_origin: Callable[[str], bool]):
        self.is_needed = any(route.mcp is not None for route in options.policy)
        self._match, self._is_route_origin, self._clients = match, is_route_origin, client_origins(options)
        self._readers = ConcurrencyLimit(MAX_READERS, MAX_READERS_PER_CLIENT, options.process_count)

    async def read(self, incoming: IncomingRequest, receive: Receive) -> Receive:
        """Add the message to `incoming`, and return a `receive` with the same body.

        Raises BadRequest if the message may not be forwarded, and ConnectionError if the client left.
        """
        compiled = self._match(incoming.request)
        if compiled is None or (settings := compiled.route.mcp) is None:
            return receive
        has_body, length = framing(incoming.scope["headers"])
        if not is_mcp_endpoint(compiled.route, incoming.request.path):
            if not has_body:
                incoming.request = incoming.request.with_message(NO_MESSAGE)
            return receive  # otherwise the message stays unknown: the upstream might read it here, too
        incoming.is_mcp = True
        require_allowed_origin(incoming, compiled.route, self._is_route_origin, self._clients)
        incoming.is_mcp_preflight = is_preflight(incoming) and not has_body and not compiled.route.cors_allow_preflight
        if not has_body and incoming.request.method != "POST":
            incoming.request = incoming.request.with_message(NO_MESSAGE)
            return receive
        return await self._read_message(incoming, settings, length, receive)

    # enforcement-point: Requests: MCP bodies
    async def _read_message(self, incoming: IncomingRequest, settings: McpSettings, length: int | None, receive: Receive) -> Receive:
        _require_json(incoming.scope["headers"])
        if length is not None and length > settings.max_body:
            raise _too_large(settings)
        body = await self._read_body(incoming, settings, receive)
        try:
            parsed = parse_message(body)
            require_matching_headers(incoming.scope["headers"], parsed)
        except McpRejected as error:
            incoming.rpc_id = error.rpc_id
            raise
        incoming.rpc_id, incoming.body = parsed.id, body
        incoming.request = incoming.request.with_message(parsed.message)
        return replay_body(body, receive)

    async def _read_body(self, incoming: IncomingRequest, settings: McpSettings, receive: Receive) -> bytes:
        first = await receive()
        if not first.get("more_body", False):
            return await self._bounded(receive, settings, first)
        network = client_network(incoming.client_address)
        if not self._readers.acquire(network):
            raise McpRejected(REFUSED, "too many messages are being read. Try again in a moment", status=429)
        try:
            return await self._bounded(receive, settings, first)
        finally:
            self._readers.release(network)

    async def _bounded(self, receive: Receive, settings: McpSettings, first: dict[str, object]) -> bytes:
        try:
            return await read_body(receive, settings.max_body, first)
        except BodyTooLong:
            raise _too_large(settings) from None


def _too_large(settings: McpSettings) -> McpRejected:
    return McpRejected(INVALID_REQUEST, f"the message is larger than {settings.max_body} bytes", status=413)


def _require_json(headers: Iterable[Header]) -> None:
    """Reject bodies that are not JSON in UTF-8 as they are: two declarations, another charset, or a coding."""
    types, has_coding = [], False
    for name, value in headers:
        if name == b"content-type":
            types.append(value)
        elif name.startswith(b"content") and name != b"content-length":
            folded = fold(name)  # an application behind CGI takes Content_Type for Content-Type
            if folded == b"content-type":
                types.append(value)
            has_coding = has_coding or folded == b"content-encoding"
    if types == _PLAIN_JSON and not has_coding:
        return
    media_type, _, parameters = types[0].decode("latin-1").partition(";") if len(types) == 1 else ("", "", "")
    if media_type.strip().lower() != JSON or _charset(parameters) not in ("", "utf-8", "utf8"):
        raise McpRejected(INVALID_REQUEST, f"Content-Type must be {JSON}, once, in UTF-8")
    if has_coding:
        raise McpRejected(PARSE_ERROR, "Content-Encoding is not supported")


def _charset(parameters: str) -> str:
    """Return the charset, in lower case.  Any other parameter counts as an unknown charset."""
    found = [part.strip().lower() for part in parameters.split(";") if part.strip()]
    if len(found) > 1:
        return "several"
    name, _, value = found[0].partition("=") if found else ("charset", "", "")
    return value.strip().strip('"') if name.strip() == "charset" else "unknown"


# enforcement-point: Requests: MCP headers
def require_matching_headers(headers: Iterable[Header], parsed: ParsedMessage) -> None:
    """Reject `Mcp-Method` and `Mcp-Name` that differ from the body, because an upstream may act by them (MCP 2026-07-28).

    Names are compared folded: an application behind CGI takes `Mcp_Method` for `Mcp-Method`.
    """
    received: dict[bytes, bytes] = {}
    for name, value in headers:
        if not name.startswith(b"mcp") or (folded := fold(name)) not in (_METHOD_HEADER, _NAME_HEADER):
            continue
        if folded in received or name.lower() != folded:
            raise _mismatch(folded, "is repeated", parsed)
        received[folded] = value
    if _METHOD_HEADER in received and _decoded(received[_METHOD_HEADER]) != parsed.message.method:
        raise _mismatch(_METHOD_HEADER, "differs from the body", parsed)
    if _NAME_HEADER in received and not _is_name(_decoded(received[_NAME_HEADER]), parsed):
        raise _mismatch(_NAME_HEADER, "differs from the body", parsed)


def _is_name(name: str | None, parsed: ParsedMessage) -> bool:
    parameter = _NAME_PARAMETERS.get(parsed.message.method)
    if name is None:
        return False
    return parsed.params.get(parameter) == name if parameter is not None else name in map(_text, parsed.params.values())


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _decoded(value: bytes) -> str | None:
    """Return the text of a header, whose form for other characters is `=?base64?...?=`; None if it is malformed."""
    try:
        text = value.decode("ascii").strip()
        if (encoded := _BASE64.fullmatch(text)) is None:
            return text
        content = base64.b64decode(encoded[1], validate=True)
        return content.decode("utf-8") if base64.b64encode(content).decode() == encoded[1] else None
    except (UnicodeDecodeError, binascii.Error, ValueError):
        return None


def _mismatch(name: bytes, problem: str, parsed: ParsedMessage) -> McpRejected:
    return McpRejected(HEADER_MISMATCH, f"the header {name.decode()} {problem}", rpc_id=parsed.id)
