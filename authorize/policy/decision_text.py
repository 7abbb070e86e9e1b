"""Text of decisions: a message for a denied user, rows for JSON and logs, and the routes that did not match."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from authorize.policy.compiled_route import CONDITIONS, compile_route
from authorize.policy.criterion import TraceStep
from authorize.policy.decision import Decision, Outcome
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.policy.paths.interpretations import interpretations
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.reasons import Reason
from authorize.policy.route_table import RouteTable
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from config.routes.policy.policy_language import SHADOW
from config.routes.route import Route
from foundation.errors import PathTooAmbiguous
from foundation.web.message import Message, join_list

MAX_SUBJECT_LENGTH = 200  # characters of a tool, prompt or resource in a message
# Reasons that a denied user cannot act on.
_UNDISCLOSED = frozenset({Reason.NOT_PREFLIGHT, Reason.NOT_SIGNED_IN, Reason.NOT_DENIED_BY_POLICY})
_DENIES = frozenset({Reason.DENIED_BY_POLICY, Reason.DENY_UNKNOWN, Reason.OTHER_PROVIDER})
# Reasons that are shown only if no criterion of the block may be disclosed.
_BLOCK_LEVEL = frozenset({Reason.NOT_ALLOWED_BY_POLICY, Reason.ALLOW_UNKNOWN})
_RESULTS = {TRUE: "yes", FALSE: "no", UNKNOWN: "unknown"}
# Outcomes that the last evaluated rule determines.
_SINGLE_RULE_OUTCOMES = frozenset({Outcome.CERTIFICATE, Outcome.STEP_UP})
_NEGATIONS = re.compile(r"\.(?:not|nor)\b")


@dataclass(frozen=True, slots=True)
class RouteCandidate:
    """Route of the configuration with the reasons why it does not match.  `mismatches` is empty if it matches."""

    index: int
    route: Route
    mismatches: tuple[str, ...]


def user_message(decision: Decision) -> Message:
    """Return the message for the user.  It never names listed values, which only administrators may see."""
    if decision.outcome is Outcome.NO_ROUTE:
        return Message("No page exists at this address.")
    if decision.outcome is Outcome.SIGN_IN:
        return Message("Sign in first.")
    if decision.outcome is Outcome.STEP_UP:
        reason = decision.trace[-1].reason.value
        return Message("This application requires a stronger sign-in: %(reason)s.", reason=reason)
    if decision.outcome is Outcome.ALLOWED:
        return Message("Allowed: %(reason)s.", reason=decision.trace[-1].reason.value)
    if decision.outcome is Outcome.CERTIFICATE:
        return Message("A client certificate is required: %(reason)s.", reason=decision.trace[-1].reason.value)
    reasons = _disclosed_reasons(decision)
    if reasons is None:
        return Message("You don't have access to this page: no rule allows it.")
    return Message("You don't have access to this page: %(reasons)s.", reasons=reasons)


def mcp_refusal_message(decision: Decision, message: McpMessage | None) -> str:
    """Return the message for the client of an MCP server.  It is in English, like every text for client applications."""
    reasons = _disclosed_reasons(decision)
    return f"{_mcp_subject(message or NO_MESSAGE)} is not allowed: {reasons or 'no rule allows it'}."


def _mcp_subject(message: McpMessage) -> str:
    kind = "tool" if message.tool else "prompt" if message.prompt else "resource" if message.resources else ""
    if kind:
        return f"The {kind} {message.name[:MAX_SUBJECT_LENGTH]}"
    return f"The MCP method {message.method}" if message.method else "This request"


def _disclosed_reasons(decision: Decision) -> Message | None:
    """Return the reasons that a denied user may see, None if there are none."""
    disclosed = (step for step in decision.trace if not step.holds and (step.description is None or step.description.is_disclosed))
    found = list(dict.fromkeys(step.reason for step in disclosed if step.reason not in _UNDISCLOSED))
    if decision.trace and decision.trace[-1].reason in _DENIES:
        found = [decision.trace[-1].reason]
    reasons = [reason.value for reason in found if reason not in _BLOCK_LEVEL] or [reason.value for reason in found]
    return join_list(reasons) if reasons else None


def trace_rows(decision: Decision) -> list[dict[str, Any]]:
    """Return the trace as rows, one per rule in order of evaluation, with actual and expected values."""
    return [_row(step, decision) for step in decision.trace]


def _row(step: TraceStep, decision: Decision) -> dict[str, Any]:
    row: dict[str, Any] = {
        "rule": step.rule,
        "holds": step.holds,
        "result": _RESULTS.get(step.value, "not known yet"),
        "reason": step.reason.value,
    }
    if step.description is not None and decision.context is not None:
        row |= {"actual": step.description.actual(decision.context), "expected": step.description.expected}
    return row


def route_candidates(
    request: PolicyRequest, policy: Sequence[Route], default_ports: frozenset[int], reserved_hosts: frozenset[str] = frozenset()
) -> list[RouteCandidate]:
    """Return the routes of the request's host, in order, up to the first match.

    Each route is matched in a separate table, so that the result equals that of the real table.
    """
    fitting = {index for index, route in enumerate(policy) if _has_host(request, route, default_ports)}
    exact_hosts = {index for index in fitting if not policy[index].from_.host.startswith("*.") and policy[index].mode != SHADOW}
    looks = []
    for index, route in enumerate(policy):
        if index not in fitting:
            misses = _address_mismatches(request, route, default_ports)
            if not misses:
                continue
        elif request.host in reserved_hosts:
            misses = [f"host: {request.host} is reserved for gate, so no wildcard matches it"]
        elif exact_hosts and route.from_.host.startswith("*."):
            misses = [f"host: {request.host} has its own routes, so routes for {route.from_.host} do not apply"]
        else:
            misses = [
                *_path_mismatches(request.path, route),
                *(["mode: the route is in shadow mode and not enforced"] if route.mode == SHADOW else []),
            ]
        looks.append(RouteCandidate(index, route, tuple(misses)))
        if not misses:
            break
    return looks


def _has_host(request: PolicyRequest, route: Route, default_ports: frozenset[int]) -> bool:
    return _single_route_table(route, default_ports).has_host(request.host, request.port, request.is_tunnel)


def _address_mismatches(request: PolicyRequest, route: Route, default_ports: frozenset[int]) -> list[str]:
    """Return mismatches of scheme and port.  Empty if the route has another host."""
    port = None if route.from_.port in default_ports and not route.is_tcp else route.from_.port
    if not _single_route_table(route, default_ports).has_host(request.host, port, route.is_tcp):
        return []
    if route.is_tcp is not request.is_tunnel:
        return ["from: the route is for TCP, which requires CONNECT" if route.is_tcp else "from: the route is not for TCP"]
    return [f"port: the route is for {_port(port)}, the request is for {_port(request.port)}"]


def _port(port: int | None) -> str:
    return "the default port" if port is None else f"port {port}"


def _path_mismatches(path: str, route: Route) -> Iterator[str]:
    for condition in CONDITIONS:
        expected = getattr(route, condition)
        if expected is None:
            continue
        others: dict[str, None] = {other: None for other in CONDITIONS if other != condition}
        if not compile_route(route.model_copy(update=others), condition).matches(path):
            yield f"{condition}: {path} {_MISMATCH_TEXT[condition]} {expected}"
    # Such a path is rejected if another route matches it (HostRoutes.match).
    compiled = compile_route(route, "")
    try:
        read = interpretations(path)
    except PathTooAmbiguous:
        read = ()
    if not compiled.matches(path) and (interpretation := next(filter(compiled.matches_interpretation, read), None)) is not None:
        yield f"an upstream may interpret {path} as {interpretation}, a path of this route"


_MISMATCH_TEXT = {"path": "is not", "prefix": "does not begin with", "regex": "does not match, as a whole,"}


def _single_route_table(route: Route, default_ports: frozenset[int]) -> RouteTable:
    return RouteTable.build([route], default_ports, client_ca=None, with_shadow=True)  # asked for its host only


def is_denied(decision: Decision) -> bool:
    """Return whether a deny rule denied the request.  It overrides every allow rule."""
    return bool(decision.trace) and decision.trace[-1].reason in _DENIES


def decisive_reason(decision: Decision) -> str:
    """Return the deciding reason for the log."""
    if decision.outcome is Outcome.SIGN_IN:
        return Reason.NOT_SIGNED_IN.value
    return decision.trace[-1].reason.value if decision.trace else decision.outcome.value


def decisive_rows(decision: Decision) -> list[int]:
    """Return the indexes of the deciding rows: the rule that allowed or denied.  If no rule matched, all that might have allowed."""
    if not decision.trace:
        return []
    last = len(decision.trace) - 1
    settled = decision.is_allowed or decision.outcome in _SINGLE_RULE_OUTCOMES or decision.trace[last].reason in _DENIES
    return [last] if settled else [place for place, step in enumerate(decision.trace) if not step.holds and step.reason not in _UNDISCLOSED]


def trace_rows_with_decisive(decision: Decision) -> list[dict[str, Any]]:
    """Return the rows of the trace with a flag on those that decided."""
    decisive = frozenset(decisive_rows(decision))
    return [{**row, "decisive": place in decisive} for place, row in enumerate(trace_rows(decision))]


def remedies(decision: Decision) -> list[str]:
    """Return ways to be allowed, as far as rules determine them.  For administrators only, because it names listed values."""
    route = decision.compiled_route
    if route is None or decision.is_allowed:
        return []
    if decision.outcome is Outcome.CERTIFICATE:
        return ["a client certificate issued by the route's CA"]
    last = decision.trace[-1] if decision.trace else None
    if decision.outcome is Outcome.STEP_UP and last is not None and last.description is not None:
        return [_remedy(last.rule, last.description.expected, is_inverted=False)]
    if last is not None and last.reason in _DENIES:
        return [f"{last.rule} must not match"]
    effects = {block.key: block.effect for block in route.route.blocks if not block.is_route_key or block.effect == "deny"}
    ways, inside = list[str](), list[str]()
    for step in decision.trace:
        if effects.get(step.rule) == "deny":
            inside = []
        elif step.rule in effects:
            ways.append(f"{step.rule}: " + (" and ".join(inside) or "its criteria must match"))
            inside = []
        elif step.description is not None:
            is_inverted = len(_NEGATIONS.findall(step.rule)) % 2 == 1
            if step.holds is is_inverted:
                (inside if step.rule.startswith("policy") else ways).append(
                    _remedy(step.rule, step.description.expected, is_inverted=is_inverted)
                )
    return ways or ["nothing: the route has no allow rule"]


def _remedy(rule: str, expected: str, *, is_inverted: bool) -> str:
    return f"{rule}: {'anything but ' if is_inverted else ''}{expected}"
