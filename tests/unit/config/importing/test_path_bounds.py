"""Bounds of a foreign path expression hold for every path and query that it was searched in."""

import re
from itertools import product

import pytest
import re2

from config.importing.path_bounds import approximate_path, sample_path
from tests.unit.config.importing.criteria import holds

EXPRESSIONS = (
    "^/api([/?].*)?$",
    "^/api/",
    "^/api$",
    "^/api(/.*)?$",
    "^/api.*$",
    "^/(a|b)/x",
    "^/a|^/b",
    "^/a|b",
    "/a",
    "a$",
    "^/[a-c]+$",
    "^/[^/]+$",
    "^/a.+",
    "",
    "^/[+-z]",
    r"^/a\.b",
    r"^/a\$",
    "^/a?b",
    "^/a*",
    "^/a/?$",
    r"^/a(\?.*)?$",
    "^(/a|/b)$",
    "^/a(?:[/?].*)?$",
    "^/a([/?]|$)",
    r"\ba",
    "(?i)^/A",
    "^/.a",
    "^/a{2}",
    "^/a[$]",
    r"^/a\?b",
    "^/a[/?]",
    ".*",
    "^/$",
    "^$",
    "a?b",
    r"^/\w+$",
    r"^/\d",
    "^/a(b)?c",
    "^/a$|^/b/",
)
PATHS = ["/" + "".join(rest) for length in range(4) for rest in product("abc/.A1x", repeat=length)] + [
    "/api/x",
    "/a$",
    "/a$b",
    "/apix",
    "/aab",
]
QUERIES = (None, "", "a", "/a", "x.b")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_surely_is_never_too_much_and_possibly_never_too_little(expression: str) -> None:
    bounds, searched = approximate_path(expression, includes_query=True), re.compile(expression)
    for path in PATHS:
        lower, upper = holds(bounds.lower, path), holds(bounds.upper, path)
        for query in QUERIES:
            found = searched.search(path if query is None else f"{path}?{query}") is not None
            assert lower <= found <= upper, (path, query)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_without_a_query_the_bounds_hold_too(expression: str) -> None:
    bounds, searched = approximate_path(expression, includes_query=False), re.compile(expression)
    for path in PATHS:
        assert holds(bounds.lower, path) <= (searched.search(path) is not None) <= holds(bounds.upper, path), path


@pytest.mark.parametrize(
    "expression", ["^/api([/?].*)?$", "^/api/.*", "^/identity.*$", "^/(api|hooks)/", "^/a/|^/b/", ".*", "^/groups/dev/.*$"]
)
def test_user_supplied_values_are_converted_exactly(expression: str) -> None:
    assert approximate_path(expression, includes_query=True).is_exact


def test_path_end_cannot_be_distinguished_from_path_with_query() -> None:
    bounds = approximate_path("^/api$", includes_query=True)
    assert bounds.lower is False
    assert bounds.upper == {"http_path": {"matches": "/api"}}
    assert approximate_path("^/api$", includes_query=False).lower == {"http_path": {"matches": "/api"}}


@pytest.mark.parametrize("expression", ["^/x y", "/.*/public", "^/[^/]+/x"])
def test_escapable_text_opens_no_path_with_escapes(expression: str) -> None:
    assert approximate_path(expression, includes_query=True).lower["http_path"]["not_contains"] == "%"


@pytest.mark.parametrize("expression", ["^/(?P<User>[a-z]+)", "(", "^/a[", "(?=x)", r"^/public\Q|", r"^/a\Qb|c\E"])
def test_user_name_and_invalid_expression_grant_nothing(expression: str) -> None:
    bounds = approximate_path(expression, includes_query=True)
    assert (bounds.lower, bounds.upper) == (False, True)


def test_flags_may_stand_between_a_letter_and_how_often_it_comes() -> None:
    assert approximate_path("^/b(?i)*admin(/.*)?", includes_query=True).upper is True


@pytest.mark.parametrize("includes_query", [True, False])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_criterion_is_one_that_gate_takes(expression: str, includes_query: bool) -> None:
    bounds = approximate_path(expression, includes_query=includes_query)
    for part in (bounds.lower, bounds.upper):
        for found in re.findall(r"'matches': '([^']*)'", str(part)):
            re2.compile(found.replace("\\\\", "\\"))


@pytest.mark.parametrize(("expression", "path"), [("^/api/v1.*", "/api/v1"), ("^/ab?", "/a"), (r"^/a\.b$", "/a.b"), ("api", "")])
def test_sample_matches_start_of_expression(expression: str, path: str) -> None:
    assert sample_path(expression) == path
