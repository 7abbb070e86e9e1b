from types import SimpleNamespace

import pytest
from django.db import InternalError, OperationalError
from django.http import HttpResponse
from django.test import RequestFactory
from structlog.testing import capture_logs

from foundation.errors import BadRequest, BrokerError
from foundation.web.site_facts import NO_SITE_FACTS
from gateproject.middleware import ResponseHeadersMiddleware, StoreUnavailableMiddleware


def page_of() -> SimpleNamespace:
    read = SimpleNamespace(host_port="auth.example.com")
    return SimpleNamespace(request_id="id1", incoming=SimpleNamespace(request_id="id1", told="", site=NO_SITE_FACTS, request=read))


def answer_to(path: str, error: Exception) -> HttpResponse | None:
    request = RequestFactory().get(path)
    request.scope = {"gate": page_of()}  # type: ignore[attr-defined]
    return StoreUnavailableMiddleware(lambda _: HttpResponse()).process_exception(request, error)


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("/.gate/callback/", BrokerError("secret host is away"), "session"),
        ("/.gate/admin/", BrokerError("secret host is away"), "data broker"),
        ("/.gate/admin/databroker/user/", OperationalError("secret host is away\nDETAIL: more"), "database"),
        ("/.gate/admin/databroker/user/", InternalError("secret host is away"), "database"),  # as PostgreSQL may only be read
    ],
)
def test_without_the_store_every_page_says_when_to_come_back_and_the_log_says_why(path: str, error: Exception, words: str) -> None:
    with capture_logs() as lines:
        response = answer_to(path, error)
    assert response is not None
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert words in response.content.decode()
    assert "secret" not in response.content.decode()
    (line,) = lines
    assert (line["log_level"], line["error"], line["request_id"]) == ("error", "secret host is away", "id1")


def test_other_errors_are_none_of_the_store() -> None:
    assert answer_to("/.gate/callback/", BadRequest("no")) is None
    assert answer_to("/.gate/admin/", ValueError()) is None


@pytest.mark.parametrize(
    ("status", "said", "name", "expected"),
    [
        (401, {}, "WWW-Authenticate", 'Bearer realm="gate"'),
        (401, {"WWW-Authenticate": "Basic"}, "WWW-Authenticate", "Basic"),
        (503, {}, "Retry-After", "5"),
        (503, {"retry-after": "60"}, "Retry-After", "60"),
        (200, {}, "Retry-After", None),
    ],
)
def test_our_pages_say_what_their_status_owes(status: int, said: dict[str, str], name: str, expected: str | None) -> None:
    request = RequestFactory().get("/.gate/callback/")
    request.scope = {"gate": page_of()}  # type: ignore[attr-defined]
    answer = HttpResponse(status=status, headers=said)
    assert ResponseHeadersMiddleware(lambda _: answer).process_response(request, answer).headers.get(name) == expected
