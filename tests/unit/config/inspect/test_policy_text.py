"""Policy text for an administrator, without secrets."""

from typing import Any

import pytest

from config.inspect.policy_text import MAX_BLOCK_LENGTH, describe_policy
from config.routes.route import Route


def text(*blocks: dict[str, Any]) -> tuple[str, ...]:
    return describe_policy(Route.model_validate({"from": "https://a.example.com", "to": "http://up", "policy": list(blocks)}))


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"allow": {"and": [{"domain": "corp.com"}, {"http_method": ["GET", "HEAD"]}]}},
            "allow: (domain is corp.com and http_method in GET, HEAD)",
        ),
        ({"deny": {"groups": "sales"}, "mode": "shadow"}, "deny: groups is sales (shadow mode)"),
        ({"allow": {"or": [{"claim/team": "a"}, {"not": [{"email": "x@y.z"}]}]}}, "allow: (claim/team is a or not (email is x@y.z))"),
        (
            {"allow": {"day_of_week": {"in": ["mon-fri"], "zone": "Europe/Berlin"}}},
            "allow: day_of_week in Monday, Tuesday, Wednesday, Thursday, Friday (Europe/Berlin)",
        ),
        ({"allow": {"time_of_day": {"after": "22:00"}}}, "allow: time_of_day after 22:00 (UTC)"),
        ({"deny": {"time_of_day": {"before": "06:30:15"}}}, "deny: time_of_day before 06:30:15 (UTC)"),
        ({"allow": {"date": {"before": "2027-01-31T18:00"}}}, "allow: date before 2027-01-31 18:00 (UTC)"),
        ({"allow": {"date": "2027-01-31"}}, "allow: date is 2027-01-31 (UTC)"),
        ({"allow": {"granted": True}}, "allow: temporary access was granted"),
        ({"deny": {"not": {"session_age": "8h"}}}, "deny: not (session_age at_most 8:00:00)"),
        ({"deny": {"source_ip": ["10.0.0.0/8", "192.0.2.1"]}}, "deny: source_ip in 10.0.0.0/8, 192.0.2.1/32"),
        ({"allow": {"groups": [f"g{n}" for n in range(7)]}}, "allow: groups in g0, g1, g2, g3, g4, and 2 more"),
    ],
)
def test_a_block_is_a_sentence(block: dict[str, Any], expected: str) -> None:
    assert text(block) == (expected,)


def test_the_values_of_headers_stay_out() -> None:
    assert text({"allow": {"http_header/X-Key": "hunter2"}}) == ("allow: http_header/x-key …",)


def test_a_long_block_is_cut() -> None:
    (line,) = text({"allow": {"or": [{"email": f"person{n}@example.com"} for n in range(100)]}})
    assert (len(line), line[-1]) == (MAX_BLOCK_LENGTH, "…")


def test_no_text_without_policy() -> None:
    assert describe_policy(Route.model_validate({"from": "https://a.example.com", "to": "http://up", "allowed_users": ["x@y.z"]})) == ()
