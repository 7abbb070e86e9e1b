"""Request recorder: writes the access-log line of each request, and its entry in the decision log."""

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from authorize.decision_log.decision_log import DecisionLog, DecisionLogEntry, OnSessionActivity, failure_outcome
from authorize.policy.decision import Decision
from authorize.policy.identity import Identity
from authorize.policy.mcp_message import McpMessage
from foundation.telemetry.http_metrics import CLIENT_CLOSED
from foundation.telemetry.logs import log_access_lazy
from foundation.telemetry.tracing.spans import active_span
from foundation.web.asgi_types import Send
from proxy.forwarding.forward_result import ForwardResult, TerminationReason
from proxy.incoming_request import IncomingRequest
from proxy.observe.request_spans import finish_root_span
from proxy.verdict import Deny, RequestDecision, Verdict

MAX_MCP_NAME_LENGTH = 256  # characters of a tool, prompt or resource in the log


@dataclass(slots=True)  # not frozen, because one is created per request
class RequestContext:
    """State of a request from arrival to end, from which its access-log line is built.

    `decision_seconds` is set even if the decision failed; `total_seconds` is set if another process measured the request.
    """

    incoming: IncomingRequest
    decision: RequestDecision | None = None
    decision_seconds: float | None = None
    total_seconds: float | None = None
    result: ForwardResult | None = None
    status: int | None = None
    log_detail: str = ""

    def record_response(self, verdict: Verdict, status: int) -> None:
        self.status = status
        if isinstance(verdict, Deny):
            self.record_denial(verdict)

    def record_denial(self, denial: Deny) -> Deny:
        """Record a denial.  Must be called before it is sent, because it counts even if the client has disconnected."""
        self.status, self.log_detail = denial.status, denial.log_detail or self.log_detail
        return denial

    def log_fields(self) -> dict[str, object]:
        """Return the fields of the access-log line.  The query is left out, because applications put secrets there."""
        fields = _request_fields(self.incoming, self.status)
        if (message := self.incoming.request.mcp) is not None:
            fields |= mcp_fields(message)
        if self.total_seconds is not None:
            fields["duration_ms"] = round(self.total_seconds * 1000, 2)
        if (decision := self.decision) is not None:
            authorization = decision.authorization
            fields |= decision_fields(authorization.decision)
            fields |= identity_fields(authorization.identity)
            if authorization.token_error:
                fields["token_error"] = authorization.token_error
            fields["decision_ms"] = round((self.decision_seconds or 0.0) * 1000, 3)
            if decision.sources is not None:
                fields["data_version"] = decision.sources.version
        if self.result is not None:
            fields |= {"bytes_sent": self.result.downstream_bytes_sent, "ending": self.result.termination.value}
            if self.result.downstream_bytes_received is not None:
                fields["bytes_received"] = self.result.downstream_bytes_received
        if self.log_detail:
            fields["problem"] = self.log_detail
        return fields


def mcp_fields(message: McpMessage) -> dict[str, object]:
    """Return the method and names of an MCP message, of bounded length."""
    resource = " ".join(message.resources)
    values = {"mcp_method": message.method, "mcp_tool": message.tool, "mcp_prompt": message.prompt, "mcp_resource": resource}
    return {name: value[:MAX_MCP_NAME_LENGTH] for name, value in values.items() if value}


def identity_fields(identity: Identity | None) -> dict[str, object]:
    """Return the account, the linked user if accounts are linked, and the OAuth client that acts for the user."""
    if identity is None:
        return {"user_id": ""}
    others = {"linked_user_id": identity.linked_id, "client_id": identity.client_id}
    return {"user_id": identity.user_id, **{name: value for name, value in others.items() if value}}


@dataclass(frozen=True, slots=True)
class RequestRecorder:
    """Recorder of requests, which also reports the activity of sessions."""

    decisions: DecisionLog
    on_session_activity: OnSessionActivity

    def report_session_activity(self, decision: RequestDecision) -> None:
        """Report the activity of the session of an allowed request."""
        if decision.authorization.identity is not None:
            self.on_session_activity(decision.session_id, decision.now, decision.incoming.request.host_port)

    def record(self, context: RequestContext) -> None:
        """Record a completed request: access-log line, trace and decision."""
        result = context.result
        if context.status is None:
            context.status = (result.status or CLIENT_CLOSED) if result else 500
        is_error = bool(context.log_detail) or (result is not None and result.termination is TerminationReason.UPSTREAM_RESET)
        log_access_lazy(logging.WARNING if is_error else logging.INFO, context.log_fields)
        if active_span() is not None:
            authorization = context.decision.authorization if context.decision is not None else None
            finish_root_span(context.incoming, authorization, context.status, is_error=is_error)
        if context.decision_seconds is not None:
            self._log_decision(context, context.decision_seconds)

    def _log_decision(self, context: RequestContext, seconds: float) -> None:
        request_decision, incoming = context.decision, context.incoming
        authorization, shadow_outcome = (
            (request_decision.authorization, request_decision.shadow_outcome) if request_decision is not None else (None, None)
        )
        decision, identity, token_error = (
            (authorization.decision, authorization.identity, authorization.token_error) if authorization is not None else (None, None, "")
        )
        if not self.decisions.should_log(decision, identity, token_error, shadow_outcome):
            return
        sources = request_decision.sources if request_decision is not None else None
        entry_fields = (incoming.request_id, incoming.request, decision, identity, seconds, incoming.client_address)
        self.decisions.enqueue(
            DecisionLogEntry(*entry_fields, 0.0, sources, shadow_outcome, failure_outcome(context.status), context.log_detail, token_error)
        )


class PageLog:
    """Access log of a request that no route handles: a page of gate, an unknown host, or a request that can't be parsed.

    Error pages display the request id, by which an administrator finds this line.
    """

    __slots__ = ("_incoming", "_send", "_status")

    def __init__(self, incoming: IncomingRequest, send: Send):
        self._incoming = incoming
        self._send = send
        self._status: int | None = None

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def emit(self) -> None:
        status = CLIENT_CLOSED if self._status is None else self._status
        level = logging.WARNING if status >= 500 else logging.INFO
        log_access_lazy(level, partial(self._fields, status))

    def _fields(self, status: int) -> dict[str, object]:
        fields = _request_fields(self._incoming, status)
        if self._incoming.response_reason:
            fields["reason"] = self._incoming.response_reason
        return fields


def _request_fields(incoming: IncomingRequest, status: int | None) -> dict[str, object]:
    request = incoming.request
    return {
        "request_id": incoming.request_id,
        "client_address": incoming.client_address,
        "method": request.method,
        "host": request.host_port,
        "path": request.path,
        "status": status,
        "duration_ms": round((time.monotonic() - incoming.started_at) * 1000, 2),
    }


def decision_fields(decision: Decision) -> dict[str, object]:
    """Return the access-log fields of a decision."""
    return {
        "route": decision.compiled_route.id if decision.compiled_route else "",
        "route_name": (decision.compiled_route.route.name or "") if decision.compiled_route else "",
        "outcome": decision.outcome.value,
        "reason": decision.trace[-1].reason.value if decision.trace else "",
    }
