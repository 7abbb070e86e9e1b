"""Decisions on MCP messages are counted in a bounded number of series."""

from authorize.policy.decision import NO_ROUTE, evaluate_route
from authorize.policy.mcp_message import McpMessage
from foundation.telemetry.metrics import registry
from proxy.observe.mcp_metrics import MAX_TOOLS, METHODS, OTHER, McpDecisionCounter
from tests.unit.authorize.builders import NOW, make_route, request, table

PUBLIC = {"allow_public_unauthenticated_access": True}
(ROUTE,) = table(make_route(mcp={}, **PUBLIC)).routes()
ALLOWED = evaluate_route(request(), None, ROUTE, NOW)


def counted(method: str, tool: str, outcome: str) -> float:
    return registry.get_sample_value("gate_mcp_decisions_total", {"method": method, "tool": tool, "outcome": outcome}) or 0.0


def test_tools_that_were_allowed_have_a_series_and_others_share_one() -> None:
    counter, before = McpDecisionCounter(), counted("tools/call", OTHER, "no route")
    search, delete = (McpMessage("tools/call", tool=name) for name in ("metric_search", "metric_delete"))
    counter.count(search, ALLOWED)
    counter.count(search, NO_ROUTE)
    counter.count(delete, NO_ROUTE)
    assert counted("tools/call", "metric_search", "allowed") == 1
    assert counted("tools/call", "metric_search", "no route") == 1
    assert counted("tools/call", OTHER, "no route") == before + 1
    assert counted("tools/call", "metric_delete", "no route") == 0


def test_number_of_tools_and_methods_is_bounded() -> None:
    counter, before = McpDecisionCounter(), counted("tools/call", OTHER, "allowed")
    for number in range(MAX_TOOLS + 3):
        counter.count(McpMessage("tools/call", tool=f"many_{number}"), ALLOWED)
    assert counted("tools/call", OTHER, "allowed") == before + 3
    others = counted(OTHER, "", "allowed")
    counter.count(McpMessage("x/y"), ALLOWED)
    assert counted(OTHER, "", "allowed") == others + 1
    assert {"tools/call", "subscriptions/listen", "initialize"} <= METHODS
