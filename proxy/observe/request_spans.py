"""Trace spans of a request: names, statuses, hosts and paths, but no queries, headers, cookies or user names."""

from collections.abc import Awaitable
from typing import Any

from authorize.authorizer import AuthorizationResult
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Decision
from authorize.policy.mcp_message import McpMessage
from authorize.policy.policy_request import PolicyRequest
from foundation.telemetry.tracing import spans
from foundation.telemetry.tracing.spans import CLIENT, AnySpan, Attributes, Span, current_span
from foundation.telemetry.tracing.tracer import Tracer
from foundation.web.asgi_types import Send
from proxy.forwarding.forward_result import ForwardResult, TerminationReason
from proxy.incoming_request import IncomingRequest
from proxy.upstreams.outgoing_request import OutgoingRequest

MAX_MCP_NAME_LENGTH = 256  # characters of a tool, prompt or resource
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"))


def start_request_span(tracer: Tracer, incoming: IncomingRequest, started_at_ns: int | None = None) -> Span | None:
    """Start the root span of a request, if it is traced, at `started_at_ns` (Unix nanoseconds) or now."""
    method = _normalize_method(incoming.scope["method"])
    span = tracer.start_root(method, incoming.scope["headers"], is_trusted=incoming.is_trusted, started_at=started_at_ns)
    if span is not None:
        span.set_attributes({"http.request.method": method, "gate.request_id": incoming.request_id})
    return span


def recording_status(span: Span, send: Send) -> Send:
    """Return an ASGI `send` that records the response status in the span."""

    async def send_recording_status(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            set_status(span, message["status"])
        await send(message)

    return send_recording_status


def set_status(span: AnySpan, status: int) -> None:
    span.set_attributes({"http.response.status_code": status})
    if status >= 500:
        span.set_error(str(status))


def name_builtin_span(request: PolicyRequest) -> None:
    """Name the span of a built-in page.  The name contains only the start of the path, so that there are few names."""
    if span := current_span():
        span.set_name(f"{_normalize_method(request.method)} {'/'.join(request.path.split('/')[:3])}")
        span.set_attributes(_request_attributes(request))


def decision_attributes(decision: Decision) -> Attributes:
    reason = decision.trace[-1].reason.value if decision.trace else ""
    name = (decision.compiled_route.route.name or "") if decision.compiled_route else ""
    return {
        "gate.outcome": decision.outcome.value,
        "gate.reason": reason,
        "gate.route": decision.compiled_route.id if decision.compiled_route else "",
        "gate.route_name": name,
    }


async def authorize_span(pending: Awaitable[AuthorizationResult]) -> AuthorizationResult:
    with spans.span("authorize") as span:
        authorization = await pending
        span.set_attributes(decision_attributes(authorization.decision))
        return authorization


def finish_root_span(incoming: IncomingRequest, authorization: AuthorizationResult | None, status: int | None, *, is_error: bool) -> None:
    """Set the attributes of the root span, which covers the complete request."""
    request, span = incoming.request, current_span()
    span.set_attributes(_request_attributes(request))
    if authorization is not None:
        span.set_attributes(decision_attributes(authorization.decision))
        if authorization.decision.compiled_route is not None:
            span.set_name(f"{_normalize_method(request.method)} {span_route(authorization.decision.compiled_route)}")
    if status is not None:
        set_status(span, status)
    if is_error:
        span.set_error(str(status or "error"))


def span_route(route: CompiledRoute) -> str:
    """Return the part of a root span's name that identifies the route."""
    return f"{route.route.from_.host_port}{route.matched_prefix}"


async def forward_span(outgoing: OutgoingRequest, pending: Awaitable[ForwardResult]) -> ForwardResult:
    """Await a forwarded request within its span.  `pending` must not have started."""
    with upstream_span(outgoing) as span:
        result = await pending
        record_forward_result(span, result)
        return result


def upstream_span(outgoing: OutgoingRequest) -> AnySpan:
    """Return the span of an upstream request.  Its trace headers replace the client's."""
    url = outgoing.upstream.url
    facts: Attributes = {
        "http.request.method": _normalize_method(outgoing.method),
        "server.address": url.raw_host or "",
        "server.port": url.port or 0,
    }
    span = spans.span("upstream", CLIENT, facts)
    outgoing.headers = span.with_trace_headers(outgoing.headers)
    return span


def record_forward_result(span: AnySpan, result: ForwardResult) -> None:
    span.set_attributes({"gate.ending": result.termination.value, "gate.bytes_sent": result.downstream_bytes_sent})
    if result.status is not None:
        set_status(span, result.status)
    if result.termination in (TerminationReason.UPSTREAM_RESET, TerminationReason.TIMEOUT):
        span.set_error(result.termination.value)


def _request_attributes(request: PolicyRequest) -> Attributes:
    return {"server.address": request.host, "url.path": request.path, **_mcp_attributes(request.mcp)}


def _mcp_attributes(message: McpMessage | None) -> dict[str, str]:
    """Return attributes with OpenTelemetry's names for MCP."""
    if not message:
        return {}
    names = {"gen_ai.tool.name": message.tool, "gen_ai.prompt.name": message.prompt, "mcp.resource.uri": " ".join(message.resources)}
    return {"mcp.method.name": message.method, **{name: value[:MAX_MCP_NAME_LENGTH] for name, value in names.items() if value}}


def _normalize_method(method: str) -> str:
    """Return a standard method unchanged and `_OTHER` for others, because clients choose them and span names must be few."""
    return method if method in METHODS else "_OTHER"
