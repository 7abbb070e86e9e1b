"""Results of criteria on MCP messages: names that match, messages without the name, messages that were not read, ambiguous URIs."""

from typing import Any

import pytest

from authorize.policy.decision import Outcome, evaluate_route
from authorize.policy.decision_text import mcp_refusal_message, trace_rows
from authorize.policy.language.mcp_criteria import NOT_READ, is_ambiguous_uri
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.policy.reasons import Reason
from tests.unit.authorize.builders import NOW, make_route, request, table, user
from tests.unit.authorize.policy.policy_texts import answer

SEARCH = McpMessage("tools/call", tool="search")
LIST = McpMessage("tools/list")
REVIEW = McpMessage("prompts/get", prompt="review")
READ = McpMessage("resources/read", resources=("docs://public/a",))


@pytest.mark.parametrize(
    ("written", "message", "expected"),
    [
        ({"mcp_method": "tools/call"}, SEARCH, True),
        ({"mcp_method": {"starts_with": "tools/"}}, LIST, True),
        ({"mcp_method": ["prompts/get", "prompts/list"]}, LIST, False),
        ({"mcp_method": {"not_in": ["prompts/get"]}}, LIST, True),
        ({"mcp_method": {"not_in": ["prompts/get"]}}, NO_MESSAGE, False),
        ({"mcp_tool": "search"}, SEARCH, True),
        ({"mcp_tool": "Search"}, SEARCH, False),
        ({"mcp_tool": {"matches": "sea.*"}}, SEARCH, True),
        ({"mcp_tool": {"contains": "ear"}}, SEARCH, True),
        ({"mcp_tool": {"ends_with": "ch"}}, SEARCH, True),
        ({"mcp_tool": {"not_in": ["search"]}}, SEARCH, False),
        ({"mcp_tool": {"not_in": ["read_file"]}}, SEARCH, True),
        ({"mcp_tool": "search"}, LIST, False),
        ({"mcp_tool": {"not_in": ["search"]}}, LIST, False),
        ({"mcp_tool": {"not_matches": "search"}}, REVIEW, False),
        ({"mcp_tool": "search"}, None, None),
        ({"mcp_tool": {"not_in": ["search"]}}, None, None),
        ({"mcp_prompt": "review"}, REVIEW, True),
        ({"mcp_prompt": {"not_is": "review"}}, SEARCH, False),
        ({"mcp_resource": {"starts_with": "docs://public/"}}, READ, True),
        ({"mcp_resource": {"not_starts_with": "docs://public/"}}, READ, False),
        ({"mcp_resource": {"not_starts_with": "docs://public/"}}, SEARCH, False),
        ({"mcp_resource": {"starts_with": "docs://public/"}}, None, None),
    ],
)
def test_message_is_compared(written: dict[str, Any], message: McpMessage | None, expected: bool | None) -> None:
    assert answer(written, mcp=message) is expected


@pytest.mark.parametrize(
    "uri",
    [
        "docs://public/../secret",
        "docs://public/..",
        "docs://public/./a",
        "file:../a",
        "docs://public/%2e%2E/secret",
        "docs://public/a%2Fb",
        "docs://public/a%5cb",
        "docs://public\\..\\secret",
        "docs://public//secret",
        "file:////etc/passwd",
        "docs://public/%61",
        "docs://public/%7E",
        "docs://public/%2525",
        "docs://public/%00",
        "docs://public/%",
        "docs://public/%g1",
        "DOCS://public/a",
        "docs://Public/a",
    ],
)
def test_ambiguous_uri_is_unknown_unless_it_is_listed(uri: str) -> None:
    message = McpMessage("resources/read", resources=(uri,))
    for operator in ("starts_with", "not_starts_with"):
        assert answer({"mcp_resource": {operator: "docs://public/"}}, mcp=message) is None
    assert answer({"mcp_resource": {"not_in": ["docs://secret"]}}, mcp=message) is None
    assert answer({"mcp_resource": uri}, mcp=message) is True


@pytest.mark.parametrize(
    "uri", ["docs://public/a", "file:///etc/passwd", "docs://public/a%20b", "docs://public/v1.2/...", "urn:isbn:1", "docs://h/%C3%BC?q=a/b"]
)
def test_plain_uri_has_one_form(uri: str) -> None:
    assert not is_ambiguous_uri(uri)


def test_several_uris_that_differ_are_unknown() -> None:
    rule = {"mcp_resource": {"starts_with": "docs://public/"}}
    public, secret = "docs://public/a", "docs://secret/a"
    for uris, expected in (((public, public), True), ((secret, secret), False), ((public, secret), None)):
        assert answer(rule, mcp=McpMessage("subscriptions/listen", resources=uris)) is expected


LIMITED = [{"deny": {"mcp_tool": {"not_in": ["search"]}}}, {"allow": {"user": "ann@corp.com"}}]


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        (SEARCH, Outcome.ALLOWED),
        (LIST, Outcome.ALLOWED),
        (NO_MESSAGE, Outcome.ALLOWED),
        (McpMessage("tools/call", tool="delete_repo"), Outcome.FORBIDDEN),
        (None, Outcome.FORBIDDEN),
    ],
)
def test_deny_of_other_tools_denies_only_calls_and_unread_messages(message: McpMessage | None, outcome: Outcome) -> None:
    (route,) = table(make_route(mcp={}, policy=LIMITED)).routes()
    decision = evaluate_route(request(mcp=message), user(), route, NOW)
    assert decision.outcome is outcome
    assert all(row["result"] in ("yes", "no", "unknown") for row in trace_rows(decision))


@pytest.mark.parametrize(
    ("message", "subject", "reason"),
    [
        (McpMessage("tools/call", tool="x"), "The tool x", Reason.MCP_TOOL_NOT_LISTED),
        (REVIEW, "The prompt review", Reason.MCP_NO_TOOL),
        (READ, "The resource docs://public/a", Reason.MCP_NO_TOOL),
        (LIST, "The MCP method tools/list", Reason.MCP_NO_TOOL),
        (NO_MESSAGE, "This request", Reason.MCP_NO_TOOL),
        (None, "This request", Reason.MCP_MESSAGE_UNKNOWN),
    ],
)
def test_refusal_names_the_call_and_no_listed_value(message: McpMessage | None, subject: str, reason: Reason) -> None:
    (route,) = table(make_route(mcp={}, policy=[{"allow": {"mcp_tool": "secret_name"}}])).routes()
    decision = evaluate_route(request(mcp=message), user(), route, NOW)
    text = mcp_refusal_message(decision, message)
    assert text.startswith(subject)
    assert text.endswith(f": {reason.value}.")
    assert "secret_name" not in text
    assert next(row["actual"] for row in trace_rows(decision)) == (NOT_READ if message is None else message.tool or "nothing")
