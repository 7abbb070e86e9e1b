from http import HTTPStatus

import pytest

from foundation.web.next_steps import next_step
from foundation.web.pages import error_response
from tests.support.next_steps import next_steps

CONTACT = (("Get help", "mailto:help@corp.com"),)


@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
@pytest.mark.parametrize("status", [*(each for each in HTTPStatus if each >= 400), 495])
def test_no_error_is_a_dead_end_whoever_forgets_what_to_do_next(status: int, accept: str) -> None:
    for help_links in ((), CONTACT):
        page = error_response(status, "Because.", "id1", accept, help_links=help_links)[1].decode()
        assert next_steps(page) == [next_step(status)]
        assert ("mailto:help@corp.com" in page) is bool(help_links)


@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
def test_a_better_step_is_the_only_one(accept: str) -> None:
    for better in ({"advice": "Wait."}, {"links": (("Wait", "/"),)}):
        page = error_response(503, "Because.", "id1", accept, **better)[1].decode()
        assert len(next_steps(page)) == 1
        assert next_step(503) not in page
