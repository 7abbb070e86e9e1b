"""Fields of an MCP message, as they are sent to another process and stored."""

import pytest

from authorize.policy.mcp_message import NO_MESSAGE, McpMessage


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
