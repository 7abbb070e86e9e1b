"""Problem details are the format of every API error, and of no other page."""

import json
from http import HTTPStatus

import pytest

from foundation.web.pages import error_response
from foundation.web.problem_details import PROBLEM, default_advice, is_api_path, problem_document, reason_phrase
from tests.support.next_steps import next_steps


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
def test_paths_below_the_api_are_programmatic(path: str, expected: bool) -> None:
    assert is_api_path(path) is expected


def test_problem_has_description_and_status() -> None:
    document = json.loads(problem_document(403, "no", "ab", permission="routes:read"))
    assert document == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "detail": "no",
        "request_id": "ab",
        "permission": "routes:read",
    }


def test_client_accepting_problem_details_gets_them_everywhere() -> None:
    kind, body = error_response(404, "not here", "ab", "application/problem+json")
    assert (kind, json.loads(body)["detail"]) == (PROBLEM, "not here")
    assert error_response(404, "not here", "ab", "application/json")[0] == "application/json"


def test_unassigned_statuses_have_texts_too() -> None:
    assert (reason_phrase(404), reason_phrase(495), reason_phrase(799)) == ("Not Found", "Client Certificate Required", "Error")


CONTACT = (("Get help", "mailto:help@corp.com"),)


@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
@pytest.mark.parametrize("status", [*(each for each in HTTPStatus if each >= 400), 495])
def test_every_error_page_has_a_default_next_step(status: int, accept: str) -> None:
    for help_links in ((), CONTACT):
        page = error_response(status, "Because.", "id1", accept, help_links=help_links)[1].decode()
        assert next_steps(page) == [default_advice(status)]
        assert ("mailto:help@corp.com" in page) is bool(help_links)


@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
def test_a_better_step_is_the_only_one(accept: str) -> None:
    for better in ({"advice": "Wait."}, {"links": (("Wait", "/"),)}):
        page = error_response(503, "Because.", "id1", accept, **better)[1].decode()
        assert len(next_steps(page)) == 1
        assert default_advice(503) not in page
