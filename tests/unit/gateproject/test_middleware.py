from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import InternalError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils.translation import get_language
from structlog.testing import capture_logs

from foundation.errors import BadRequest, BrokerError
from foundation.web.brand import EMPTY_SITE_INFO
from gateproject.middleware import LanguageMiddleware, ResponseHeadersMiddleware, StoreUnavailableMiddleware


def page_of() -> SimpleNamespace:
    read = SimpleNamespace(host_port="auth.example.com")
    return SimpleNamespace(
        request_id="id1", incoming=SimpleNamespace(request_id="id1", response_reason="", site=EMPTY_SITE_INFO, request=read)
    )


def answer_to(path: str, error: Exception) -> HttpResponse | None:
    request = RequestFactory().get(path)
    request.scope = {"gate": page_of()}  # type: ignore[attr-defined]
    return StoreUnavailableMiddleware(lambda _: HttpResponse()).process_exception(request, error)


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        ("/.gate/callback/", BrokerError("secret host is away"), "session"),
        ("/.gate/admin/", BrokerError("secret host is away"), "data broker"),
        ("/.gate/admin/databroker/user/", OperationalError("secret host is away\nDETAIL: more"), "database"),
        ("/.gate/admin/databroker/user/", InternalError("secret host is away"), "database"),  # as PostgreSQL may only be read
    ],
)
def test_without_store_every_page_suggests_retry_and_cause_is_logged(path: str, error: Exception, text: str) -> None:
    with capture_logs() as lines:
        response = answer_to(path, error)
    assert response is not None
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert text in response.content.decode()
    assert "secret" not in response.content.decode()
    (line,) = lines
    assert (line["log_level"], line["error"], line["request_id"]) == ("error", "secret host is away", "id1")


def test_other_errors_are_none_of_the_store() -> None:
    assert answer_to("/.gate/callback/", BadRequest("no")) is None
    assert answer_to("/.gate/admin/", ValueError()) is None


@pytest.mark.parametrize(
    ("status", "headers", "name", "expected"),
    [
        (401, {}, "WWW-Authenticate", 'Bearer realm="gate"'),
        (401, {"WWW-Authenticate": "Basic"}, "WWW-Authenticate", "Basic"),
        (503, {}, "Retry-After", "5"),
        (503, {"retry-after": "60"}, "Retry-After", "60"),
        (200, {}, "Retry-After", None),
    ],
)
def test_pages_have_the_headers_of_their_status(status: int, headers: dict[str, str], name: str, expected: str | None) -> None:
    request = RequestFactory().get("/.gate/callback/")
    request.scope = {"gate": page_of()}  # type: ignore[attr-defined]
    answer = HttpResponse(status=status, headers=headers)
    assert ResponseHeadersMiddleware(lambda _: answer).process_response(request, answer).headers.get(name) == expected


@pytest.mark.parametrize(
    ("path", "accept_language", "language"),
    [
        ("/.gate/sessions", "fr-CH, en;q=0.5", "fr"),
        ("/.gate/sessions", "it", "en"),
        ("/.gate/admin/", "de", "en-us"),
        ("/.gate/admin/databroker/session/", "de", "en-us"),
    ],
)
async def test_a_page_is_made_in_its_readers_language_and_the_admin_in_english(path: str, accept_language: str, language: str) -> None:
    found = []

    async def view(request: HttpRequest) -> HttpResponse:
        found.append(get_language())
        return HttpResponse()

    before = get_language()
    await LanguageMiddleware(view)(RequestFactory().get(path, headers={"accept-language": accept_language}))
    assert found == [language]
    assert get_language() == before


def test_an_answer_that_django_leaves_empty_is_made_where_the_language_is_known() -> None:
    order = settings.MIDDLEWARE
    assert order.index("gateproject.middleware.LanguageMiddleware") < order.index("gateproject.middleware.ResponseHeadersMiddleware")
