"""A decision in words."""

import re
from typing import Any

import pytest

from authorize.policy.decision import decide
from authorize.policy.decision_text import remedies, route_candidates, trace_rows, user_message
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from config.routes.route import Route
from foundation.web.message import Message, join_list
from tests.unit.authorize.builders import HTTPS, NOW, make_route, request, table, user


def explained(keys: dict[str, Any], caller: Identity | None, target: str = "/") -> Message:
    return user_message(decide(request(target), caller, table(make_route(**keys)), NOW))


@pytest.mark.parametrize(
    ("keys", "caller", "text", "params"),
    [
        ({"allowed_users": ["x@x.org"]}, user(), "have access", {"reasons": Reason.USER_NOT_LISTED.value}),
        # That the provider is one of the route's is no reason for a refusal.
        (
            {"allowed_users": ["x@x.org"], "identity_providers": ["oidc"]},
            user(),
            "have access",
            {"reasons": Reason.USER_NOT_LISTED.value},
        ),
        (
            {"allowed_groups": ["g"], "allowed_domains": ["x.org"]},
            user(),
            "have access",
            {"reasons": join_list([Reason.NO_GROUPS.value, Reason.DOMAIN_NOT_LISTED.value])},
        ),
        ({"allowed_domains": ["x.org"]}, user(""), "have access", {"reasons": Reason.EMAIL_NOT_USABLE.value}),
        ({"cors_allow_preflight": True}, user(), "no rule", {}),
        ({}, None, "Sign in", {}),
        ({"prefix": "/a"}, None, "No page", {}),
        ({"allow_any_authenticated_user": True}, user(), "Allowed", {"reason": Reason.SIGNED_IN.value}),
    ],
)
def test_a_decision_is_one_plain_sentence(keys: dict[str, Any], caller: Identity | None, text: str, params: dict[str, Message]) -> None:
    found = explained(keys, caller)
    assert text in found
    assert found.params == params
    assert found.endswith(".")


def test_a_way_in_is_no_key_that_keeps_others_out() -> None:
    keys = {"allowed_users": ["x@x.org"], "identity_providers": ["oidc"]}
    assert remedies(decide(request(), user(), table(make_route(**keys)), NOW)) == ["allowed_users: one of x@x.org"]


def test_message_has_no_duplicate_reason() -> None:
    keys = {"allowed_users": ["x@x.org"], "allowed_domains": ["x.org"]}
    assert explained(keys, user("")).count("e-mail address") == 1


def test_sentence_never_names_listed_values() -> None:
    keys = {
        "allowed_users": ["boss@x.org"],
        "allowed_groups": ["secret-group"],
        "allowed_domains": ["hidden.org"],
        "allowed_idp_claims": {"c": "v1"},
    }
    assert not any(listed in explained(keys, user()) for listed in ("boss", "secret-group", "hidden", "v1"))


def test_the_rows_are_the_trace() -> None:
    found = decide(request(), user(), table(make_route(allowed_users=["no"], allowed_domains=["corp.com"])), NOW)
    assert trace_rows(found) == [
        {
            "rule": "allowed_users",
            "holds": False,
            "result": "no",
            "reason": Reason.USER_NOT_LISTED.value,
            "actual": "ann@corp.com, oidc/1, 1",
            "expected": "one of no",
        },
        {
            "rule": "allowed_domains",
            "holds": True,
            "result": "yes",
            "reason": Reason.DOMAIN_LISTED.value,
            "actual": "ann@corp.com",
            "expected": "one of corp.com",
        },
    ]


def test_wildcard_mismatch_names_reserved_host() -> None:
    (look,) = route_candidates(request("/", "auth.example.com"), [make_route("*.example.com")], HTTPS, frozenset({"auth.example.com"}))
    (miss,) = look.mismatches
    assert miss.startswith("host: auth.example.com is reserved")


def looked(target: str, *routes: Route, host: str = "app.example.com") -> list[tuple[int, tuple[str, ...]]]:
    """(index, misses) of each, of a miss its key and the values that it names; and what is found is what a decision finds."""
    incoming = request(target, host)
    looks = route_candidates(incoming, routes, HTTPS)
    found = table(*routes).match(incoming)
    assert [look.route for look in looks if not look.mismatches] == ([found.route] if found else [])
    return [(look.index, tuple(map(facts, look.mismatches))) for look in looks]


def facts(miss: str) -> str:
    """Its key, and each path, host, port, "TCP", "shadow" and the like in it."""
    key, _, text = miss.partition(":")
    return " ".join((key, *re.findall(r"\S*[/.*\d]\S*|default|TCP|CONNECT|shadow", text.replace(",", " "))))


def test_a_route_is_passed_over_for_each_condition_that_does_not_hold() -> None:
    routes = (
        make_route(path="/login"),
        make_route(prefix="/admin", regex="/[a-z]+/[0-9]"),
        make_route(prefix="/a", regex="/a/[a-z]+"),
        make_route(),
        make_route(),
    )
    assert looked("/a/1", *routes) == [
        (0, ("path /a/1 /login",)),
        (1, ("prefix /a/1 /admin",)),
        (2, ("regex /a/1 /a/[a-z]+",)),
        (3, ()),
    ]


def test_route_of_other_host_is_no_candidate() -> None:
    assert looked("/", make_route("a.example.com"), make_route("*.other.com"), make_route()) == [(2, ())]


def test_a_route_of_another_port_is_passed_over_for_its_port() -> None:
    routes = (make_route("app.example.com:8443"), make_route("app.example.com:443"))
    assert looked("/", *routes) == [(0, ("port 8443 default",)), (1, ())]
    assert looked("/", *routes, host="app.example.com:99") == [
        (0, ("port 8443 99",)),
        (1, ("port default 99",)),
    ]


def test_wildcard_is_mismatch_for_host_with_own_routes() -> None:
    routes = (make_route("*.example.com"), make_route(path="/x"))
    assert looked("/", *routes) == [
        (0, ("host app.example.com *.example.com",)),
        (1, ("path / /x",)),
    ]
    assert looked("/", *routes, host="b.example.com") == [(0, ())]


def test_a_route_in_shadow_is_passed_over_because_it_is_in_shadow() -> None:
    routes = (make_route(path="/x", mode="shadow"), make_route())
    assert looked("/x", *routes) == [(0, ("mode shadow",)), (1, ())]


def test_host_without_routes_has_no_candidates() -> None:
    assert looked("/", make_route(), host="nowhere.test") == []


def test_paths_are_compared_in_canonical_form() -> None:
    assert looked("/%61%20b/../%C3%BC", make_route(path="/ü"), make_route()) == [(0, ())]


def test_a_path_with_two_readings_names_the_route_it_could_belong_to() -> None:
    looks = route_candidates(request("//admin/x"), (make_route(prefix="/admin"), make_route(prefix="/b"), make_route()), HTTPS)
    (prefix, reading), (other,), hit = (look.mismatches for look in looks)
    assert (facts(prefix), facts(other), hit) == ("prefix //admin/x /admin", "prefix //admin/x /b", ())
    assert "//admin/x as /admin/x" in reading


def test_route_of_other_protocol_is_mismatch() -> None:
    routes = [
        make_route(**{"from": "tcp+https://app.example.com:5432", "to": "tcp://db.internal:5432"}),
        make_route(),
    ]
    assert [*map(facts, route_candidates(request(), routes, HTTPS)[0].mismatches)] == ["from TCP CONNECT"]
    looks = route_candidates(request("/", "app.example.com:5432", "CONNECT"), routes[::-1], HTTPS)
    assert [[*map(facts, look.mismatches)] for look in looks] == [["from TCP"], []]
