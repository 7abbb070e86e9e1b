"""MCP routes: the endpoint of a Model Context Protocol server (Streamable HTTP), and the checks of the key `mcp`."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from config.fields.basic_types import PositiveDuration, Text, text
from config.fields.field_type import PATH, FieldType, integer_type
from config.routes.policy.criteria import MCP_CRITERIA
from config.routes.policy.policy_language import iter_comparisons
from config.routes.route_upstream_oauth import UpstreamOAuthSettings
from config.validation import Finding, Rule, Settings

if TYPE_CHECKING:
    from config.routes.route import Route

DEFAULT_MAX_BODY, MIN_MAX_BODY, MAX_MAX_BODY = 256 * 1024, 1024, 4 * 1024 * 1024  # bytes
MAX_SCOPES, MAX_SCOPE_DESCRIPTION_LENGTH = 64, 200
# Segments of plain characters, so that the path has one form.
_PATH = re.compile(r"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)+")
_SCOPE = re.compile(r"[!#-\[\]-~]{1,128}")  # RFC 6749 3.3
_RESERVED_SCOPES = frozenset({"openid", "offline_access"})


def parse_mcp_path(value: Any) -> str | None:
    """Parse the path of an endpoint. `/` is the complete route, as is no path."""
    written = text(value)
    if written == "/":
        return None
    if not _PATH.fullmatch(written):
        raise ValueError("must be a path such as /mcp: letters, digits, and the characters . _ ~ -, without a slash at the end")
    return written


def parse_scopes(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("must be a map of scopes to descriptions")
    if len(value) > MAX_SCOPES:
        raise ValueError(f"must have at most {MAX_SCOPES} scopes")
    for name, description in value.items():
        if not isinstance(name, str) or not _SCOPE.fullmatch(name) or name in _RESERVED_SCOPES:
            raise ValueError(f"{str(name)[:80]!a} is not a scope: write visible ASCII characters without spaces, quotes and backslashes")
        if len(text(description)) > MAX_SCOPE_DESCRIPTION_LENGTH:
            raise ValueError(f"the description of {name} must have at most {MAX_SCOPE_DESCRIPTION_LENGTH} characters")
    return dict(value)


class McpSettings(Settings):
    """MCP server: its endpoint, and limits of its messages."""

    RULES: ClassVar[tuple[Rule, ...]] = ()

    path: Annotated[str | None, FieldType("string", parse_mcp_path, PATH)] = Field(
        None,
        description="Path of the MCP endpoint. Requests with a body to other paths of the route have an unknown message.",
        examples=["/mcp"],
        json_schema_extra={"when_unset": "every path of the route"},
    )
    name: Text | None = Field(
        None,
        description="Name of the MCP server for people.",
        examples=["Company repositories"],
        json_schema_extra={"when_unset": "the name of the application"},
    )
    scopes: Annotated[Mapping[str, str], FieldType("map string-to-string", parse_scopes, {"type": "object", "minProperties": 1})] = Field(
        default_factory=dict,
        description="OAuth scopes of the server with their descriptions.",
        examples=[{"repositories:read": "Read repositories"}],
    )
    max_body: Annotated[int, integer_type(MIN_MAX_BODY, MAX_MAX_BODY)] = Field(
        DEFAULT_MAX_BODY,
        description="Maximum size of a message in bytes, from 1024 to 4194304. gate reads each message before it forwards it.",
        examples=[1048576],
    )
    agent_session_expire: PositiveDuration | None = Field(
        None,
        description="As the setting `agent_session_expire`, for this MCP server. If the client has a value too, the shorter one applies.",
        examples=["8h"],
        json_schema_extra={"when_unset": "as that of the client, or the setting"},
    )
    upstream_oauth: UpstreamOAuthSettings | None = Field(
        None,
        description="The upstream is a third-party server that has its own authorization server. Users connect their accounts once, and "
        "gate forwards each user's access token. `{}` discovers the authorization server. Service accounts cannot use the route.",
        examples=[
            {
                "client_id": "Iv1.8a61f9b3a7aba766",
                "client_secret_file": "client-secret",
                "authorization_url": "https://login.example.org/authorize",
                "token_url": "https://login.example.org/token",
            }
        ],
    )


class McpRouteKeys(Settings):
    """Route key of MCP servers."""

    mcp: McpSettings | None = Field(
        None,
        description="The upstream is an MCP server (Streamable HTTP). gate reads each message, so that `policy` can compare methods, "
        "tools, resources and prompts. `{}` sets the defaults.",
        examples=[{"path": "/mcp"}],
    )


def is_mcp_endpoint(route: "Route", path: str) -> bool:
    """Return whether a canonical path is at the route's MCP endpoint. Paths below the endpoint belong to it, `/mcp/` for example."""
    if route.mcp is None:
        return False
    endpoint = route.mcp.path
    return endpoint is None or path == endpoint or path.startswith(f"{endpoint}/")


def mcp_resource_uri(route: "Route", host_port: str) -> str:
    """Return the canonical URI of the MCP server (RFC 8707 2), without a slash at the end.

    `host_port` is the host of the request, which a wildcard route does not know, with the port unless it is the default.
    """
    settings = route.mcp
    path = (settings.path if settings is not None else None) or route.path or route.prefix or ""
    return f"{route.from_.scheme}://{host_port}{path.rstrip('/')}"


def check_mcp_settings(route: "Route") -> Iterator[Finding]:
    yield from _check_mcp_criteria(route)
    if (settings := route.mcp) is None:
        return
    if route.redirect is not None or not route.to:
        yield ("mcp",), "requires an upstream. Set `to`"
    for key in ("upstream_http2", "allow_websockets", "allow_spdy"):
        if getattr(route, key):
            yield (key,), "cannot be combined with mcp: gate could not read the messages. Use a separate route"
    if settings.path is None:
        if route.regex is not None:
            yield ("mcp", "path"), "is required with regex, which does not determine the URL of the server"
        return
    if route.path is not None and settings.path != route.path:
        yield ("mcp", "path"), f"must be {route.path}, the only path of this route"
    if route.prefix is not None and not settings.path.startswith(route.prefix):
        yield ("mcp", "path"), f"must start with {route.prefix}, the prefix of this route"


def _check_mcp_criteria(route: "Route") -> Iterator[Finding]:
    yield from _check_scopes(route)
    if route.mcp is not None:
        return
    for criterion in sorted({each.criterion for each in iter_comparisons(route.policy)} & MCP_CRITERIA):
        yield ("policy",), f"{criterion} requires the key mcp on this route. Add `mcp: {{}}`"


def _check_scopes(route: "Route") -> Iterator[Finding]:
    """Report criteria on scopes that no access token of the route has."""
    known = route.mcp.scopes if route.mcp is not None else {}
    for comparison in iter_comparisons(route.policy):
        if comparison.criterion != "scope":
            continue
        if not known:
            yield ("policy",), "scope requires scopes of this route. Set `mcp.scopes`"
            return
        for name in comparison.operand if comparison.operator in ("is", "in") else ():
            if name not in known:
                yield ("policy",), f"{name} is not a scope of this route. Add it to `mcp.scopes`, or correct it"
