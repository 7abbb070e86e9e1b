"""Metrics of MCP messages, with a bounded number of series: clients choose the names of methods and tools."""

from prometheus_client import Counter

from authorize.policy.decision import Decision
from authorize.policy.mcp_message import McpMessage
from foundation.telemetry import metrics

MAX_TOOLS = 200
OTHER = "other"
# Methods of the revisions from 2025-03-26 to 2026-07-28 that clients send.
METHODS = frozenset(
    (
        *("initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list"),
        *("resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete"),
        *("logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel"),
        *("notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed"),
    )
)


class McpDecisionCounter:
    """Counter of decisions on MCP messages.  Only an allowed call adds a tool, because denied ones may have any name."""

    def __init__(self) -> None:
        self._tools: set[str] = set()
        self._counters: dict[tuple[str, str, int], Counter] = {}

    def count(self, message: McpMessage, decision: Decision) -> None:
        tool = message.tool
        if decision.is_allowed and tool and len(self._tools) < MAX_TOOLS:
            self._tools.add(tool)
        label = tool if not tool or tool in self._tools else OTHER
        method = message.method if message.method in METHODS else OTHER
        key = method, label, id(decision.outcome)  # the id, because members of enumerations hash slowly
        if (counter := self._counters.get(key)) is None:
            counter = self._counters[key] = metrics.mcp_decisions.labels(method, label, decision.outcome.value)
        counter.inc()
