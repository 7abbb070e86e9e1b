"""Problems name what is wrong, in bounded words, and nothing that was sent beyond a name."""

from pydantic import ValidationError

from authenticate.api.api_problems import MAX_ERRORS, MAX_NAME_LENGTH, ApiProblem, from_validation_error, invalid_input, not_found
from authenticate.api.api_types import PageQuery


def test_invalid_members_are_named_within_limits() -> None:
    problem = invalid_input("query", [("x" * 1000, "is wrong")] * 100)
    assert len(problem.members["errors"]) == MAX_ERRORS
    assert {len(each["name"]) for each in problem.members["errors"]} == {MAX_NAME_LENGTH}
    assert len(str(problem)) <= 1000


def test_translates_pydantic_errors() -> None:
    try:
        PageQuery.model_validate({"limit": "many", "colour": "a secret"})
    except ValidationError as error:
        problem = from_validation_error("query", error)
    assert problem.status == 400
    limit, colour = problem.members["errors"]
    assert (limit["in"], limit["name"]) == ("query", "limit")
    assert "whole number" in limit["reason"]
    assert colour == {"in": "query", "name": "colour", "reason": "unknown key"}
    assert "a secret" not in str(problem.members) + str(problem)


def test_problem_headers() -> None:
    problem = ApiProblem(405, "no").with_header("Allow", "GET")
    assert (problem.status, problem.headers, not_found("session").status) == (405, {"Allow": "GET"}, 404)
