"""A decision in words."""

from typing import Any

import pytest

from authorize.policy.decision import decide
from authorize.policy.explain import rows, sentence
from authorize.policy.identity import Identity
from tests.unit.authorize.builders import make_route, request, table, user


def explained(keys: dict[str, Any], caller: Identity | None, target: str = "/") -> str:
    return sentence(decide(request(target), caller, table(make_route(**keys))))


@pytest.mark.parametrize(
    ("keys", "caller", "words"),
    [
        ({"allowed_users": ["x@x.org"]}, user(), "You can't open this page: you are not among the people listed."),
        ({"allowed_groups": ["g"], "allowed_domains": ["x.org"]}, user(),
         "You can't open this page: no group of yours is known, and the domain of your e-mail address is not listed."),
        ({"allowed_domains": ["x.org"]}, user(""),
         "You can't open this page: your e-mail address is missing, or not verified by the identity provider."),
        ({"cors_allow_preflight": True}, user(), "You can't open this page: its route lets nobody in."),
        ({}, None, "Please sign in first."),
        ({"prefix": "/a"}, None, "There is nothing at this address."),
        ({"allow_any_authenticated_user": True}, user(), "Allowed: any signed-in person may enter."),
    ],
)  # fmt: skip
def test_a_decision_is_one_plain_sentence(keys: dict[str, Any], caller: Identity | None, words: str) -> None:
    assert explained(keys, caller) == words


def test_the_sentence_does_not_say_the_same_twice() -> None:
    keys = {"allowed_users": ["x@x.org"], "allowed_domains": ["x.org"]}
    assert explained(keys, user("")).count("e-mail address") == 1


def test_the_sentence_never_names_what_is_listed() -> None:
    keys = {
        "allowed_users": ["boss@x.org"],
        "allowed_groups": ["secret-group"],
        "allowed_domains": ["hidden.org"],
        "allowed_idp_claims": {"c": "v1"},
    }
    assert not any(listed in explained(keys, user()) for listed in ("boss", "secret-group", "hidden", "v1"))


def test_the_rows_are_the_trace() -> None:
    found = decide(request(), user(), table(make_route(allowed_users=["no"], allowed_domains=["corp.com"])))
    assert rows(found) == [
        {"rule": "allowed_users", "holds": False, "reason": "you are not among the people listed"},
        {"rule": "allowed_domains", "holds": True, "reason": "the domain of this person's e-mail address is listed"},
    ]
