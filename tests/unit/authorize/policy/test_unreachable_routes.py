"""The route table never matches a route that is reported as unreachable."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorize.policy.policy_request import PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.policy.unreachable_routes import unreachable
from config.routes.route import Route
from foundation.errors import BadRequest, ConfigError

HOST = "https://a.example.com"
DEFAULT = frozenset({443})


def route(from_: str = HOST, **keys: Any) -> Route:
    return Route.model_validate({"from": from_, "to": "http://u", **keys})


def pairs(*routes: Route, ports: frozenset[int] = DEFAULT) -> list[tuple[int, int]]:
    return list(unreachable(routes, ports))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({}, {}),
        ({}, {"path": "/x"}),
        ({}, {"prefix": "/x"}),
        ({}, {"regex": "/[a-z]+"}),
        ({"prefix": "/"}, {}),
        ({"prefix": "/a"}, {"prefix": "/a/b"}),
        ({"prefix": "/a"}, {"prefix": "/a"}),
        ({"prefix": "/a"}, {"path": "/abc"}),
        ({"prefix": "/a"}, {"regex": "/a/[0-9]+"}),
        ({"prefix": "/a.b"}, {"regex": r"/a\.b/.*"}),
        ({"prefix": "/a"}, {"prefix": "/b", "path": "/a/x"}),
        ({"prefix": "/a b"}, {"path": "/a%20b/c"}),
        ({"path": "/x"}, {"path": "/x"}),
        ({"path": "/%78"}, {"path": "/x"}),
        ({"path": "/x"}, {"path": "/x", "prefix": "/"}),
        ({"path": "/x"}, {"regex": "/x"}),
        ({"regex": "/[a-z]+"}, {"path": "/abc"}),
        ({"regex": "/[a-z]+"}, {"regex": "/[a-z]+"}),
        ({"regex": "/[a-z]+"}, {"regex": "/abc"}),
        ({"regex": ".*"}, {"prefix": "/a"}),
        ({"regex": "/api/.*"}, {"prefix": "/api/v1"}),
        ({"regex": "[/]a", "prefix": "/a"}, {"regex": "[/]a", "prefix": "/a"}),
    ],
)
def test_an_earlier_route_covers_a_later_one(earlier: dict[str, str], later: dict[str, str]) -> None:
    assert pairs(route(**earlier), route(**later)) == [(1, 0)]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"path": "/x"}, {}),
        ({"path": "/x"}, {"prefix": "/x"}),
        ({"prefix": "/a/b"}, {"prefix": "/a"}),
        ({"prefix": "/a/"}, {"path": "/a"}),
        ({"prefix": "/a"}, {"regex": "/a|/b"}),
        ({"prefix": "/ab"}, {"regex": "/ab?c"}),
        ({"prefix": "/ab"}, {"regex": "/a(b)?"}),
        ({"prefix": "/ab"}, {"regex": "/ab*"}),
        ({"prefix": "/ab"}, {"regex": "/ab{0,2}"}),
        ({"prefix": "/a."}, {"regex": r"/a\.?b"}),
        ({"prefix": "/ab"}, {"regex": "(?i)/ab"}),
        ({"prefix": "/d"}, {"regex": r"/\d"}),
        ({"path": "/a.b"}, {"regex": "/a.b"}),
        ({"regex": "/[a-z]+"}, {"prefix": "/abc"}),
        ({"regex": "/api/.+"}, {"prefix": "/api/"}),
        ({"regex": "/a|/b.*"}, {"prefix": "/b"}),
        ({"prefix": "/a", "regex": "/a/[0-9]"}, {"prefix": "/a/b"}),
        ({"path": "/a", "prefix": "/b"}, {"path": "/a"}),
    ],
)
def test_a_later_route_that_something_reaches_is_no_alarm(earlier: dict[str, str], later: dict[str, str]) -> None:
    assert pairs(route(**earlier), route(**later)) == []


def test_only_routes_of_the_same_host_and_port_are_compared() -> None:
    assert pairs(route("https://*.example.com"), route(HOST)) == []
    assert pairs(route(HOST), route("https://*.example.com")) == []
    assert pairs(route(HOST), route(f"{HOST}:8443")) == []
    assert pairs(route(HOST), route(f"{HOST}:443")) == [(1, 0)]
    assert pairs(route(HOST), route(f"{HOST}:80")) == []
    assert pairs(route(HOST), route(f"{HOST}:80"), ports=frozenset({80, 443})) == [(1, 0)]
    assert pairs(route("https://*.example.com"), route("https://*.EXAMPLE.com"), route("https://*.example.org")) == [(1, 0)]


def test_the_first_that_covers_is_named() -> None:
    assert pairs(route(path="/x"), route(prefix="/"), route(), route(path="/x")) == [(2, 1), (3, 0)]


def test_hundreds_of_expressions_cost_no_minutes() -> None:
    routes = [route(regex=f"/{index}/[a-z]+") for index in range(500)] + [route(path=f"/x/{index}") for index in range(500)]
    assert pairs(*routes) == []


TEXT = st.text("/ab.", min_size=1, max_size=3).map(lambda text: "/" + text)
REGEX = st.lists(
    st.sampled_from(["/", "a", "b", r"\.", ".", "a*", "b?", ".*", "(a|b)", "[ab]", "|", "a{0,1}", r"\w"]), min_size=1, max_size=4
)
ROUTES = st.fixed_dictionaries({}, optional={"path": TEXT, "prefix": TEXT, "regex": REGEX.map("".join)})


@given(st.lists(ROUTES, min_size=2, max_size=5), st.lists(st.text("/ab.", max_size=4).map(lambda text: "/" + text), max_size=40))
@settings(max_examples=150)
def test_the_route_table_never_finds_a_route_that_is_called_unreachable(written: list[dict[str, str]], paths: list[str]) -> None:
    try:
        routes = [route(**keys) for keys in written]
        table = RouteTable.build(routes, client_ca=None)
    except (ValueError, ConfigError):
        return
    never = {index for index, _ in unreachable(routes, DEFAULT)}
    for path in {*paths, *(keys[key] for keys in written for key in ("path", "prefix") if key in keys)}:
        try:
            found = table.match(PolicyRequest("GET", "a.example.com", None, path))
        except BadRequest:
            continue
        assert found is None or next(i for i, each in enumerate(routes) if each is found.route) not in never
