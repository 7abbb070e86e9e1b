"""Access requests of a route: temporary access, its approvers, and break-glass access."""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field
from pydantic_core import PydanticCustomError

from config.fields.basic_types import PositiveDuration, text_list
from config.fields.field_type import LIST, FieldType, JsonSchema, choice_type, integer_type
from config.routes.policy.policy_language import Expression, Place, identity_expression
from config.routes.route_tcp import REWRITES
from config.validation import Finding, Rule, Settings
from foundation.web.plain_text import is_sanitized

if TYPE_CHECKING:
    from config.routes.route import Route

REQUIRED, OPTIONAL = REASONS = ("required", "optional")
MAX_DURATION = timedelta(days=30)
MAX_APPROVALS = 5
MAX_TOOLS, MAX_TOOL_LENGTH = 100, 200
# Keys that change the target of requests.
_UPSTREAM_KEYS = (*REWRITES, "tls_server_name")
IDENTITY_CRITERIA_SCHEMA: JsonSchema = {"type": "array", "minItems": 1, "items": {"type": "object", "minProperties": 1, "maxProperties": 1}}


def parse_identity_criteria(value: Any) -> Expression:
    """Parse criteria on users, of which one must match. Raises an error with all findings and their key paths."""
    findings: list[tuple[Place, str]] = []
    expression = identity_expression(value, findings)
    if findings or expression is None:
        raise PydanticCustomError("rules", "breaks a rule", {"findings": findings})
    return expression


def upstream_fingerprint(route: "Route") -> str:
    """Return a digest of the keys that change the target, apart from address, path and upstream; "" if none is set."""
    ways = {key: str(value) for key in _UPSTREAM_KEYS if (value := getattr(route, key)) not in (None, False)}
    return f"-{hashlib.sha256(json.dumps(ways).encode()).hexdigest()[:16]}" if ways else ""


@lru_cache(maxsize=1024)
def _tool_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, re.split(r"\*+", pattern))) if pattern.strip("*") else ".+", re.DOTALL)


def _check_max_duration(settings: "BreakGlassSettings | AccessRequestSettings") -> Iterator[Finding]:
    if settings.max_duration > MAX_DURATION:
        yield ("max_duration",), "must be at most 720h (30 days). Use a rule for permanent access"


def check_access_requests(route: "Route") -> Iterator[Finding]:
    if route.access_requests is not None and route.redirect is not None:
        yield ("access_requests",), "has no effect on a route without sign-in"
    if route.access_requests is not None and route.access_requests.tools and route.mcp is None:
        yield ("access_requests", "tools"), "requires the key mcp on this route"


def parse_tools(value: Any) -> tuple[str, ...]:
    """Parse names and patterns of tools, in which `*` matches any characters."""
    tools = tuple(dict.fromkeys(text_list(value)))
    if not 0 < len(tools) <= MAX_TOOLS:
        raise ValueError(f"must have from 1 to {MAX_TOOLS} entries")
    for tool in tools:
        if not is_tool_name(tool):
            raise ValueError(f"{tool[:80]!a} is not a tool: write its name, or a pattern such as delete_*")
    return tools


def is_tool_name(text: str) -> bool:
    """Return whether a text may name a tool, as gate accepts it in a message (proxy/mcp/message_parser.py)."""
    return 0 < len(text) <= MAX_TOOL_LENGTH and is_sanitized(text) and text == text.strip()


def tool_grant_key(grant_key: str, tool: str) -> str:
    """Return the key of temporary access to one tool of a route, or of the complete route for ""."""
    return f"{grant_key}\n{tool}" if tool else grant_key


class BreakGlassSettings(Settings):
    """Break-glass access: users who may grant themselves access in an emergency."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_max_duration,)

    allowed: Annotated[Expression, FieldType("list of objects", parse_identity_criteria, IDENTITY_CRITERIA_SCHEMA)] = Field(
        description="Criteria for these users; one match is sufficient.", examples=[[{"groups": "on-call"}]]
    )
    max_duration: PositiveDuration = Field(timedelta(hours=1), description="Maximum duration of emergency access.", examples=["30m"])


class AccessRequestSettings(Settings):
    """Temporary access: approvers, and limits of a request."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_max_duration,)

    def accepts(self, tool: str) -> bool:
        """Return whether requests for this tool are accepted, or for the complete route if it is ""."""
        if not self.tools:
            return not tool
        return any(_tool_pattern(pattern).fullmatch(tool) is not None for pattern in self.tools)

    approvers: Annotated[Expression, FieldType("list of objects", parse_identity_criteria, IDENTITY_CRITERIA_SCHEMA)] = Field(
        description="Criteria for approvers, as in `policy`; one match is sufficient. Users cannot approve their own requests.",
        examples=[[{"groups": "payroll-leads"}]],
    )
    max_duration: PositiveDuration = Field(timedelta(hours=8), description="Maximum duration of temporary access.", examples=["2h"])
    reason: Annotated[str, choice_type(*REASONS)] = Field(REQUIRED, description="Whether a request needs a reason.", examples=[OPTIONAL])
    approvals: Annotated[int, integer_type(1, MAX_APPROVALS)] = Field(1, description="Number of different approvers.", examples=[2])
    tools: Annotated[tuple[str, ...], FieldType("list of string", parse_tools, LIST)] = Field(
        (),
        description="Tools of an MCP server that users may request, one at a time, by name or with `*` for any characters. With it, "
        "requests and break-glass access are for one tool, never for the complete route. `granted` is then true for calls of that tool.",
        examples=[["delete_repo", "merge_*"]],
        json_schema_extra={"when_unset": "requests are for the complete route"},
    )
    break_glass: BreakGlassSettings | None = Field(
        None,
        description="Users who may grant themselves emergency access. Each use is logged and sent to the webhook.",
        examples=[{"allowed": [{"groups": "on-call"}], "max_duration": "30m"}],
    )
