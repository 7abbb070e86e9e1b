"""Criteria of the policy language on the MCP message of a request: method, tool, resource and prompt."""

import re
from collections.abc import Callable

from authorize.policy.criterion import NOT_APPLICABLE, Criterion, CriterionReasons, EvaluationContext, request_criterion
from authorize.policy.language.text_operators import describe, text_matcher
from authorize.policy.mcp_message import McpMessage
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from config.routes.policy.policy_language import Comparison

METHOD = CriterionReasons(
    Reason.MCP_METHOD_LISTED, Reason.MCP_METHOD_NOT_LISTED, Reason.MCP_MESSAGE_UNKNOWN, not_applicable=Reason.MCP_NO_METHOD
)
TOOL = CriterionReasons(Reason.MCP_TOOL_LISTED, Reason.MCP_TOOL_NOT_LISTED, Reason.MCP_MESSAGE_UNKNOWN, not_applicable=Reason.MCP_NO_TOOL)
PROMPT = CriterionReasons(
    Reason.MCP_PROMPT_LISTED, Reason.MCP_PROMPT_NOT_LISTED, Reason.MCP_MESSAGE_UNKNOWN, not_applicable=Reason.MCP_NO_PROMPT
)
RESOURCE = CriterionReasons(
    Reason.MCP_RESOURCE_LISTED, Reason.MCP_RESOURCE_NOT_LISTED, Reason.MCP_RESOURCE_UNKNOWN, not_applicable=Reason.MCP_NO_RESOURCE
)
NOT_READ = "a message that gate has not read"

# Dot segments, backslashes, empty segments, incomplete escapes, and capital letters in the scheme or host (RFC 3986 6.2.2).
_AMBIGUOUS_URI = re.compile(
    r"(?:[/:]|\A)\.\.?(?:[/?#]|\Z)|\\|(?<!:)(?<!:/)//|%(?![0-9A-Fa-f]{2})|\A[^:/?#]*[A-Z][^:/?#]*:|\A[^:/?#]*://[^/?#]*[A-Z]"
)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
# Escapes of characters that need none, of those that separate parts of a URI, and of control characters.
_AMBIGUOUS_ESCAPES = frozenset(
    f"{code:02X}" for code in range(128) if code < 0x20 or code == 0x7F or chr(code).isalnum() or chr(code) in "-._~/\\?#%:"
)


def mcp_method(comparison: Comparison) -> Criterion:
    return _named_criterion(comparison, METHOD, lambda message: message.method)


def mcp_tool(comparison: Comparison) -> Criterion:
    """Match the tool that `tools/call` calls."""
    return _named_criterion(comparison, TOOL, lambda message: message.tool)


def mcp_prompt(comparison: Comparison) -> Criterion:
    """Match the prompt of `prompts/get` and of a completion."""
    return _named_criterion(comparison, PROMPT, lambda message: message.prompt)


# enforcement-point: Authorization: MCP criteria
def _named_criterion(comparison: Comparison, reasons: CriterionReasons, name_in: Callable[[McpMessage], str]) -> Criterion:
    """Match a name of the message.

    UNKNOWN if the message was not read.  A message without such a name is NOT_APPLICABLE, also to a negated operator, so that
    `deny: {mcp_tool: {not_in: [search]}}` denies only calls of tools.
    """
    fits = text_matcher(comparison.operator, comparison.operand)

    def evaluate(context: EvaluationContext) -> int:
        message = context.request.mcp
        if message is None:
            return UNKNOWN
        if not (name := name_in(message)):
            return NOT_APPLICABLE
        return TRUE if fits(name) else FALSE

    def actual(context: EvaluationContext) -> str:
        message = context.request.mcp
        return NOT_READ if message is None else name_in(message) or "nothing"

    return request_criterion(describe(comparison, actual), reasons, evaluate, is_negated=comparison.is_negated)


# enforcement-point: Authorization: MCP resources
def mcp_resource(comparison: Comparison) -> Criterion:
    """Match the URIs of resources.

    A URI that a server may resolve to another one is UNKNOWN, unless it is listed as it is.  Several URIs are UNKNOWN if only some match.
    """
    fits = text_matcher(comparison.operator, comparison.operand)
    is_exact = comparison.operator in ("is", "in")

    def evaluate(context: EvaluationContext) -> int:
        message = context.request.mcp
        if message is None:
            return UNKNOWN
        if not message.resources:
            return NOT_APPLICABLE
        results = {_evaluate_uri(uri, fits(uri), is_exact=is_exact) for uri in message.resources}
        return results.pop() if len(results) == 1 else UNKNOWN

    def actual(context: EvaluationContext) -> str:
        message = context.request.mcp
        return NOT_READ if message is None else ", ".join(message.resources) or "nothing"

    return request_criterion(describe(comparison, actual), RESOURCE, evaluate, is_negated=comparison.is_negated)


def _evaluate_uri(uri: str, is_match: bool, *, is_exact: bool) -> int:
    if is_ambiguous_uri(uri) and not (is_exact and is_match):
        return UNKNOWN
    return TRUE if is_match else FALSE


def is_ambiguous_uri(uri: str) -> bool:
    """Return whether a server may resolve the URI of a resource to another URI."""
    if _AMBIGUOUS_URI.search(uri) is not None:
        return True
    return "%" in uri and not _AMBIGUOUS_ESCAPES.isdisjoint(code.upper() for code in _ESCAPE.findall(uri))
