"""Results of the criteria on OAuth clients and scopes, for clients of each registration and for callers without a client."""

from typing import Any

import pytest

from authorize.policy.criterion import EvaluationContext
from authorize.policy.reasons import Reason
from tests.unit.authorize.builders import NOW, request, user
from tests.unit.authorize.policy.policy_texts import answer, criterion

DOCUMENT = "https://claude.ai/oauth/client.json"
# The publisher of a document chooses its path.
IMPOSTOR = "https://evil.example/x/claude.ai"
DYNAMIC = "dynamic-k3"


@pytest.mark.parametrize(
    ("written", "client_id", "expected"),
    [
        ({"client": "build-agent"}, "build-agent", True),
        ({"client": "build-agent"}, "Build-agent", False),
        ({"client": ["claude.ai", "build-agent"]}, "build-agent", True),
        ({"client": ["claude.ai", "build-agent"]}, DOCUMENT, True),
        ({"client": ["claude.ai", "build-agent"]}, IMPOSTOR, False),
        ({"client": ["claude.ai", "build-agent"]}, DYNAMIC, False),
        ({"client": {"not_in": ["claude.ai"]}}, DOCUMENT, False),
        ({"client": {"not_in": ["claude.ai"]}}, IMPOSTOR, True),
        ({"client": DOCUMENT}, DOCUMENT, True),
        ({"client": DOCUMENT}, DOCUMENT + "x", False),
        ({"client": "CLAUDE.ai"}, DOCUMENT, True),
        ({"client": "claude.ai"}, "https://claude.ai:8443/x", True),
        ({"client": "claude.ai"}, "https://claude.ai.evil.example/x", False),
        ({"client": {"ends_with": ".claude.ai"}}, "https://mcp.claude.ai/x", True),
        ({"client": {"ends_with": ".claude.ai"}}, "https://evil.example/x/mcp.claude.ai", False),
        ({"client": {"ends_with": "/client.json"}}, DOCUMENT, True),
        ({"client": {"contains": "claude"}}, "https://evil.example/claude", False),
        ({"client": {"contains": "/claude"}}, "https://evil.example/claude", True),
        ({"client": {"starts_with": "https://claude.ai/"}}, DOCUMENT, True),
        ({"client": {"starts_with": "claude"}}, DOCUMENT, True),
        ({"client": {"starts_with": "dynamic-"}}, DYNAMIC, True),
        ({"client": {"starts_with": "dynamic-"}}, DOCUMENT, False),
        ({"client": {"matches": r"(.*\.)?claude\.ai"}}, DOCUMENT, True),
        ({"client": {"matches": r"(.*\.)?claude\.ai"}}, IMPOSTOR, False),
        ({"client": {"matches": r"https://claude\.ai/.*"}}, DOCUMENT, True),
        ({"client": {"not_matches": r"https://claude\.ai/.*"}}, DOCUMENT, False),
        ({"client": {"matches": ".*"}}, "build-agent", True),
        # Callers without a client: false, also with negated operators.
        ({"client": "build-agent"}, "", False),
        ({"client": {"not_in": ["build-agent"]}}, "", False),
        ({"client": {"not_matches": "x"}}, "", False),
    ],
)
def test_client_is_compared(written: dict[str, Any], client_id: str, expected: bool) -> None:
    assert answer(written, user(client_id=client_id)) is expected


@pytest.mark.parametrize(
    ("written", "scopes", "expected"),
    [
        ({"scope": "read"}, {"read", "write"}, True),
        ({"scope": "read"}, {"write"}, False),
        ({"scope": "read"}, set(), False),
        ({"scope": ["read", "write"]}, {"write"}, True),
        ({"scope": {"starts_with": "repo:"}}, {"x", "repo:read"}, True),
        ({"scope": {"not_in": ["write"]}}, {"read"}, True),
        ({"scope": {"not_in": ["write"]}}, set(), True),
        ({"scope": {"not_in": ["write"]}}, {"read", "write"}, False),
    ],
)
def test_any_scope_counts(written: dict[str, Any], scopes: set[str], expected: bool) -> None:
    assert answer(written, user(client_id="build-agent", scopes=frozenset(scopes))) is expected


@pytest.mark.parametrize("written", [{"scope": "read"}, {"scope": {"not_in": ["read"]}}])
def test_caller_without_a_client_has_no_scopes(written: dict[str, Any]) -> None:
    """Not even one whose identity had some."""
    assert answer(written, user(scopes=frozenset({"read"}))) is False
    assert answer({"scope": "read"}, None) == "maybe"


@pytest.mark.parametrize(
    ("written", "identity", "actual", "reason"),
    [
        ({"client": "a"}, user(client_id="build-agent"), "build-agent", Reason.CLIENT_NOT_LISTED),
        ({"client": "a"}, user(), "no client", Reason.NO_CLIENT),
        ({"client": "a"}, None, "no client", Reason.NOT_SIGNED_IN),
        ({"scope": "a"}, user(client_id="x", scopes=frozenset({"c", "b"})), "b, c", Reason.SCOPE_NOT_LISTED),
        ({"scope": "a"}, user(client_id="x"), "nothing", Reason.SCOPE_NOT_LISTED),
        ({"scope": "a"}, user(), "no client", Reason.NO_SCOPES),
    ],
)
def test_explanation_has_the_compared_value(written: dict[str, Any], identity: Any, actual: str, reason: Reason) -> None:
    step = criterion(written).evaluate(context := EvaluationContext(request(), identity, NOW))
    assert step.description is not None
    assert (step.description.actual(context), step.reason) == (actual, reason)
