"""MCP message of a request: the values that policy compares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class McpMessage:
    """Method and names of a JSON-RPC message.  A field is empty if the message has no such value.

    `tool`, `prompt` and `resources` are what the method uses: the tool that `tools/call` calls, and the URIs that `resources/read` reads
    or `subscriptions/listen` subscribes to.
    """

    method: str = ""
    tool: str = ""
    prompt: str = ""
    resources: tuple[str, ...] = ()

    def fields(self) -> dict[str, object]:
        """Return the values that are set, by name."""
        values = {"method": self.method, "tool": self.tool, "prompt": self.prompt, "resources": list(self.resources)}
        return {name: value for name, value in values.items() if value}

    def __bool__(self) -> bool:
        """Return whether there is a message that has a method."""
        return bool(self.method)

    @property
    def name(self) -> str:
        """Return the tool, prompt or resources, "" if the message has none."""
        return self.tool or self.prompt or " ".join(self.resources)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "McpMessage":
        """Return the message with these `fields()`, of a process or record of gate."""
        method, tool, prompt = (str(fields.get(name, "")) for name in ("method", "tool", "prompt"))
        return cls(method, tool, prompt, tuple(map(str, fields.get("resources", ()))))


# Of a request without a body, such as the GET of an event stream.
NO_MESSAGE = McpMessage()
