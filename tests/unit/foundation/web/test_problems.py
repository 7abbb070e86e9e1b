"""Problem documents: one form for every error of the API, and for nothing beside it."""

import json

import pytest

from foundation.web.pages import error_response
from foundation.web.problems import PROBLEM, is_api, phrase, problem_document


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/.gate/api/", True),
        ("/.gate/api/sessions/x", True),
        ("/.gate/api/openapi.json", True),
        ("/.gate/api/portal.json", False),
        ("/.gate/api/v1/login", False),
        ("/.gate/apis/", False),
        ("/.gate/", False),
        ("/", False),
    ],
)
def test_what_is_below_the_api_is_for_programs(path: str, expected: bool) -> None:
    assert is_api(path) is expected


def test_a_problem_says_what_and_under_which_number() -> None:
    said = json.loads(problem_document(403, "no", "ab", permission="routes:read"))
    assert said == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "detail": "no",
        "request_id": "ab",
        "permission": "routes:read",
    }


def test_who_accepts_problems_gets_one_everywhere() -> None:
    kind, body = error_response(404, "not here", "ab", "application/problem+json")
    assert (kind, json.loads(body)["detail"]) == (PROBLEM, "not here")
    assert error_response(404, "not here", "ab", "application/json")[0] == "application/json"


def test_statuses_of_nobody_have_words_as_well() -> None:
    assert (phrase(404), phrase(495), phrase(799)) == ("Not Found", "Client Certificate Required", "Error")
