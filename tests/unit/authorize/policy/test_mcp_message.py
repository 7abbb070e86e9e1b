"""Fields of an MCP message, as they are sent to another process and stored."""

import pytest

from authorize.policy.mcp_message import NO_MESSAGE, McpMessage


def test_name_is_that_of_any_kind_and_only_a_message_with_a_method_is_true() -> None:
    messages = (McpMessage("x", tool="a"), McpMessage("x", prompt="b"), McpMessage("x", resources=("c", "d")))
    assert [message.name for message in messages] == ["a", "b", "c d"]
    assert (bool(McpMessage("x")), bool(NO_MESSAGE)) == (True, False)


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (NO_MESSAGE, {}),
        (McpMessage("tools/call", tool="search"), {"method": "tools/call", "tool": "search"}),
        (McpMessage("prompts/get", prompt="review"), {"method": "prompts/get", "prompt": "review"}),
        (McpMessage("resources/read", resources=("a:b",)), {"method": "resources/read", "resources": ["a:b"]}),
    ],
)
def test_fields_contain_set_values_only_and_round_trip(message: McpMessage, fields: dict[str, object]) -> None:
    assert message.fields() == fields
    assert McpMessage.from_fields(fields) == message
