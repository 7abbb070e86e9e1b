"""Parsing of policies, and findings with their key paths."""

from typing import Any

import pytest

from config.routes.policy.policy_language import Block, Combination, Comparison, parse_policy
from tests.unit.config.conftest import Problems

ALLOW = "policy[0].allow"


def test_the_short_forms_mean_is_and_in() -> None:
    (block,) = parse_policy([{"allow": {"or": [{"email": "a@b.c"}, {"email": ["a@b.c", "d@e.f"]}]}}])
    assert block == Block(
        "policy[0].allow",
        "allow",
        Combination(
            "or",
            (
                Comparison("policy[0].allow.or[0].email", "email", "", "is", False, ("a@b.c",)),
                Comparison("policy[0].allow.or[1].email", "email", "", "in", False, ("a@b.c", "d@e.f")),
            ),
        ),
    )


def test_several_operators_must_all_hold() -> None:
    (block,) = parse_policy({"deny": {"groups": {"starts_with": "a", "not_in": ["ab"]}}})
    assert isinstance(block.expression, Combination)
    assert block.expression.operator == "and"
    assert [(part.operator, part.is_negated) for part in block.expression.parts if isinstance(part, Comparison)] == [
        ("starts_with", False),
        ("in", True),
    ]


@pytest.mark.parametrize(
    ("written", "place", "message"),
    [
        ("x", "policy", "list of blocks"),
        ([], "policy", "list of blocks"),
        ([{}], "policy[0]", "`allow` or `deny`"),
        ([{"alow": {"user": "a"}}], "policy[0].alow", "Did you mean allow?"),
        ([{"allow": {}}], ALLOW, "one criterion"),
        ([{"allow": []}], ALLOW, "one criterion"),
        ([{"allow": {"user": "a", "groups": "b"}}], ALLOW, "several keys"),
        ([{"allow": {"and": []}}], f"{ALLOW}.and", "at least one"),
        ([{"allow": {"and": {"user": "a"}}}], f"{ALLOW}.and", "list"),
        ([{"allow": {"not": [{"user": "a"}, {"user": "b"}]}}], f"{ALLOW}.not", "nor"),
        ([{"allow": {"or": [{"user": "a"}, {"group": "b"}]}}], f"{ALLOW}.or[1].group", "Did you mean groups?"),
        ([{"allow": {"claims/x": "b"}}], f"{ALLOW}.claims/x", "Did you mean claim?"),
        ([{"allow": {"claim": "b"}}], f"{ALLOW}.claim", "written claim/<path>"),
        ([{"allow": {"claim/": "b"}}], f"{ALLOW}.claim/", "written claim/<path>"),
        ([{"allow": {"user/x": "b"}}], f"{ALLOW}.user/x", "written user"),
        ([{"allow": {"email": {"start_with": "b"}}}], f"{ALLOW}.email.start_with", "Did you mean starts_with?"),
        ([{"allow": {"email": {"not_exists": True}}}], f"{ALLOW}.email.not_exists", "not an operator of email"),
        ([{"allow": {"email": {}}}], f"{ALLOW}.email", "needs an operator"),
        ([{"allow": {"email": {"is": ["a@b.c"]}}}], f"{ALLOW}.email.is", "takes one value. For"),
        ([{"allow": {"email": {"in": "a@b.c"}}}], f"{ALLOW}.email.in", "takes a list. For"),
        ([{"allow": {"email": {"in": []}}}], f"{ALLOW}.email.in", "empty"),
        ([{"allow": {"email": None}}], f"{ALLOW}.email", "text"),
        ([{"allow": {"email": "corp.com"}}], f"{ALLOW}.email", "domain"),
        ([{"allow": {"email": {"ends_with": "corp.com"}}}], f"{ALLOW}.email.ends_with", "would also match the"),
        ([{"allow": {"domain": "@corp.com"}}], f"{ALLOW}.domain", "domain only"),
        ([{"allow": {"domain": {"ends_with": "corp.com"}}}], f"{ALLOW}.domain.ends_with", "dot"),
        ([{"allow": {"groups": {"contains": "g"}}}], f"{ALLOW}.groups.contains", "not an operator of groups"),
        ([{"allow": {"claim/x": {"exists": "yes"}}}], f"{ALLOW}.claim/x.exists", "true or false"),
        ([{"allow": {"granted": False}}], f"{ALLOW}.granted", "takes true"),
        ([{"allow": {"granted": {"not_is": True}}}], f"{ALLOW}.granted.not_is", "not an operator of granted"),
        ([{"allow": {"granted": ["a"]}}], f"{ALLOW}.granted", "needs an operator"),
        ([{"allow": {"email": {"matches": "a("}}}], f"{ALLOW}.email.matches", "at character"),
        ([{"allow": {"source_ip": "10.0.0.1/8"}}], f"{ALLOW}.source_ip", "network"),
        ([{"allow": {"http_method": "get"}}], f"{ALLOW}.http_method", "upper case"),
        ([{"allow": {"http_path": "admin"}}], f"{ALLOW}.http_path", "must start with /"),
        ([{"allow": {"http_path": "/a?b"}}], f"{ALLOW}.http_path", "query"),
        ([{"allow": {"http_header/X_Y": "a"}}], f"{ALLOW}.http_header/X_Y", "letters"),
        ([{"allow": {"http_header/X-Gate-Claim-Email": "a"}}], f"{ALLOW}.http_header/X-Gate-Claim-Email", "header that gate sets"),
        ([{"allow": {"http_header/X-Forwarded-For": "a"}}], f"{ALLOW}.http_header/X-Forwarded-For", "source_ip"),
        ([{"allow": {"http_header/X-Real-IP": "a"}}], f"{ALLOW}.http_header/X-Real-IP", "source_ip"),
        ([{"allow": {"time_of_day": "08:00"}}], f"{ALLOW}.time_of_day", "after, before"),
        ([{"allow": {"time_of_day": {"after": 800}}}], f"{ALLOW}.time_of_day.after", "time of day"),
        ([{"allow": {"time_of_day": {"after": "25:00"}}}], f"{ALLOW}.time_of_day.after", "time of day"),
        ([{"allow": {"time_of_day": {"after": "08:00", "before": "08:00"}}}], f"{ALLOW}.time_of_day", "never true"),
        ([{"allow": {"time_of_day": {"after": "08:00", "zone": "Berlin"}}}], f"{ALLOW}.time_of_day.zone", "time zone"),
        ([{"allow": {"day_of_week": "someday"}}], f"{ALLOW}.day_of_week", "not a day"),
        ([{"allow": {"date": "2027-02-30"}}], f"{ALLOW}.date", "calendar"),
        ([{"allow": {"date": {"after": "2027-02-01", "before": "2027-01-01"}}}], f"{ALLOW}.date", "never true"),
        ([{"allow": {"client_certificate": "ab"}}], f"{ALLOW}.client_certificate", "fingerprint, spki"),
        ([{"allow": {"client_certificate": {"fingerprint": "ab"}}}], f"{ALLOW}.client_certificate.fingerprint", "64 hexadecimal"),
        ([{"allow": {"client_certificate": {"spki": "ab"}}}], f"{ALLOW}.client_certificate.spki", "base64"),
        ([{"allow": {"session_age": 8}}], f"{ALLOW}.session_age", "duration"),
    ],
)
def test_error_is_reported_at_its_location(route_problems: Problems, written: Any, place: str, message: str) -> None:
    ((key, text),) = route_problems(policy=written).items()
    assert key == place
    assert message in text


def test_all_errors_are_reported_at_once(route_problems: Problems) -> None:
    written = [{"allow": {"and": [{"emails": "a"}, {"domain": "@a"}]}}, {"deny": {"or": [{"user": 1}, {"not": {"x": 1}}]}}]
    assert len(route_problems(policy=written)) == 4


def test_nesting_is_read_only_to_a_practical_depth(route_problems: Problems) -> None:
    deep: dict[str, Any] = {"user": "a"}
    for _ in range(20):
        deep = {"not": deep}
    assert "deep" in str(route_problems(policy=[{"allow": deep}]))


def test_allow_block_alongside_open_access_has_no_effect(route_problems: Problems) -> None:
    found = route_problems(policy=[{"allow": {"user": "a"}}], allow_any_authenticated_user=True)
    assert "`allow` of policy" in found["allow_any_authenticated_user"]
