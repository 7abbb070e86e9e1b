"""Paths that a route matches, and the error of a route that cannot be compiled."""

from typing import Any

import pytest

from authorize.policy.compiled_route import compile_route, has_allow_rule
from authorize.policy.decision import Outcome, evaluate_route
from foundation.errors import ConfigError
from tests.unit.authorize.builders import NOW, make_route, request


@pytest.mark.parametrize(
    ("keys", "path", "matches"),
    [
        ({}, "/anything", True),
        ({"path": "/a"}, "/a", True),
        ({"path": "/a"}, "/a/", False),
        ({"path": "/a b"}, "/a%20b", True),
        ({"prefix": "/a"}, "/ab", True),
        ({"prefix": "/a/"}, "/a", False),
        ({"prefix": "/%61"}, "/ab", True),
        ({"prefix": "/."}, "/.git", True),
        ({"prefix": "/."}, "/admin", False),
        ({"regex": "/a+"}, "/aaa", True),
        ({"regex": "/a+"}, "/aaab", False),
        ({"regex": "/a|/b"}, "/b", True),
        ({"regex": "/a|/b"}, "/bc", False),
        ({"regex": "a"}, "/a", False),
        ({"regex": "/(?i)ADMIN"}, "/admin", True),
        ({"prefix": "/a", "regex": ".*\\.png"}, "/a/b.png", True),
        ({"prefix": "/a", "regex": ".*\\.png"}, "/c/b.png", False),
        ({"prefix": "/a", "regex": ".*\\.png"}, "/a/b.gif", False),
        ({"prefix": "/a", "path": "/b"}, "/b", False),
    ],
)
def test_a_route_takes_the_paths_that_meet_all_its_conditions(keys: dict[str, str], path: str, matches: bool) -> None:
    assert compile_route(make_route(**keys), "policy[0]").matches(path) is matches


@pytest.mark.parametrize(
    ("keys", "matched"),
    [({}, ""), ({"prefix": "/a b"}, "/a%20b"), ({"path": "/x"}, "/x"), ({"path": "/x", "prefix": "/"}, "/x"), ({"regex": "/x"}, "")],
)
def test_the_matched_prefix_is_canonical(keys: dict[str, str], matched: str) -> None:
    assert compile_route(make_route(**keys), "policy[0]").matched_prefix == matched


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"path": "/a\\b"}, "policy[7].path"),
        ({"prefix": "/..;/"}, "policy[7].prefix"),
        ({"regex": "/ä"}, "policy[7].regex"),
        ({"allowed_domains": ["corp.com", "*.corp.com"]}, "policy[7].allowed_domains[1]"),
        ({"allowed_users": ["ann@corp.com", "oidc/"]}, "policy[7].allowed_users[1]"),
        ({"access_requests": {"approvers": [{"user": "oidc/"}]}}, "policy[7].access_requests.approvers"),
        (
            {"access_requests": {"approvers": [{"user": "oidc/1"}], "break_glass": {"allowed": [{"user": "oidc/"}]}}},
            "policy[7].access_requests.break_glass.allowed",
        ),
    ],
)
def test_a_route_that_could_never_work_is_a_problem_with_its_key(keys: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_route(make_route(**keys), "policy[7]")
    assert [problem.key for problem in caught.value.problems] == [key]


def test_a_long_subject_does_not_slow_an_expression_down() -> None:
    """RE2 is linear; a backtracking engine would take longer than the universe for this one."""
    route = compile_route(make_route(regex="/(a|a)*b"), "policy[0]")
    assert not route.matches("/" + "a" * 8000)


@pytest.mark.parametrize(
    ("keys", "allows"),
    [
        ({}, 0),
        ({"allow_public_unauthenticated_access": True}, 1),
        ({"allow_any_authenticated_user": True}, 1),
        ({"cors_allow_preflight": True}, 1),
        ({"allowed_users": ["ann@corp.com"], "allowed_groups": ["sales"], "allowed_domains": ["corp.com"]}, 3),
        ({"allowed_idp_claims": {"department": ["sales"], "office": ["here"]}}, 1),
        ({"redirect": {"https_redirect": True}}, 1),
        ({"allow_websockets": True, "max_age": "15m", "identity_providers": ["okta"]}, 0),
        ({"policy": [{"allow": {"http_method": "GET"}}, {"deny": {"http_method": "PUT"}}]}, 1),
        ({"policy": [{"allow": {"http_method": "GET"}, "mode": "shadow"}]}, 0),
    ],
)
def test_has_allow_rule(keys: dict[str, Any], allows: int) -> None:
    route = make_route(**keys)
    assert len(compile_route(route, "policy[0]").allow_rules) == allows
    assert has_allow_rule(route) is bool(allows)


AT_NIGHT = {"allow": {"time_of_day": {"after": "22:00", "before": "06:00"}}}


@pytest.mark.parametrize(
    ("keys", "client_ca", "with_shadow", "is_timed"),
    [
        ({"allow_any_authenticated_user": True}, None, False, False),
        ({"allow_any_authenticated_user": True}, b"PEM", False, True),
        ({"allow_any_authenticated_user": True, "max_age": "1h"}, None, False, True),
        ({"policy": [AT_NIGHT]}, None, False, True),
        ({"policy": [AT_NIGHT | {"mode": "shadow"}]}, None, False, False),
        ({"policy": [AT_NIGHT | {"mode": "shadow"}]}, None, True, True),
    ],
)
def test_where_a_decision_changes_with_time_is_known(
    keys: dict[str, Any], client_ca: bytes | None, with_shadow: bool, is_timed: bool
) -> None:
    assert compile_route(make_route(**keys), "policy[0]", client_ca, with_shadow=with_shadow).is_time_dependent is is_timed


@pytest.mark.parametrize(
    ("keys", "client_ca", "needs_identity"),
    [
        ({}, None, True),
        ({"allow_any_authenticated_user": True}, None, True),
        ({"allowed_users": ["a@b.org"], "allowed_groups": ["g"], "allowed_domains": ["b.org"]}, None, True),
        ({"allowed_idp_claims": {"team": ["x"]}}, None, True),
        ({"allow_any_authenticated_user": True, "acr_values": ["mfa"], "max_age": "1h"}, None, True),
        ({"allow_public_unauthenticated_access": True}, None, False),
        ({"allowed_users": ["a@b.org"], "cors_allow_preflight": True}, None, False),
        ({"allow_any_authenticated_user": True}, b"PEM", False),
        ({"policy": [{"allow": {"http_method": "GET"}}]}, None, False),
    ],
)
def test_needs_identity_unless_anonymous_requests_may_be_allowed(
    keys: dict[str, Any], client_ca: bytes | None, needs_identity: bool
) -> None:
    route = compile_route(make_route(**keys), "policy[0]", client_ca)
    assert route.skips_anonymous_evaluation is needs_identity
    if needs_identity:
        preflight = {"origin": b"https://o.example", "access_control_request_method": b"PUT"}
        for incoming in (request(), request(method="OPTIONS", **preflight)):
            assert evaluate_route(incoming, None, route, NOW).outcome is Outcome.SIGN_IN
