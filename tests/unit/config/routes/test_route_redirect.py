"""A redirect has a target, which differs from the request URL."""

from typing import Any

import pytest

from config.routes.route import Route
from tests.unit.config.conftest import Problems

MINIMAL = {"from": "https://app.example.com"}


def test_a_redirect_has_the_fields_of_the_specification() -> None:
    keys: dict[str, Any] = {
        "https_redirect": True,
        "scheme_redirect": "https",
        "host_redirect": "Other.example.com",
        "port_redirect": 8443,
        "path_redirect": "/x?y=z",
        "prefix_rewrite": "/y",
        "response_code": 308,
        "strip_query": True,
    }
    redirect = Route.model_validate({**MINIMAL, "redirect": keys}).redirect
    assert redirect is not None
    assert redirect.model_dump() == keys | {"host_redirect": "other.example.com"}


def test_a_redirect_is_301_and_keeps_the_query_by_default() -> None:
    redirect = Route.model_validate({**MINIMAL, "redirect": {"https_redirect": True}}).redirect
    assert redirect is not None
    assert (redirect.response_code, redirect.strip_query) == (301, False)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_code", 200),
        ("response_code", 300),
        ("response_code", "301"),
        ("response_code", 301.0),
        ("port_redirect", 0),
        ("port_redirect", True),
        ("scheme_redirect", "javascript"),
        ("host_redirect", "evil.com/x"),
        ("host_redirect", "a\r\nb"),
        ("path_redirect", "x"),
        ("path_redirect", "/a\\b"),
        ("path_redirect", "/a\r\nb"),
        ("prefix_rewrite", "/a?b"),
    ],
)
def test_a_redirect_that_makes_no_location_is_refused(route_problems: Problems, field: str, value: Any) -> None:
    assert f"redirect.{field}" in route_problems(to=None, redirect={"https_redirect": True, field: value})


def test_a_redirect_that_changes_nothing_is_refused(route_problems: Problems) -> None:
    assert "redirect to itself" in route_problems(to=None, redirect={})["redirect"]
