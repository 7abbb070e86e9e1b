from types import SimpleNamespace

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from foundation.crypto import cookies
from foundation.web import responses
from foundation.web.brand import EMPTY_SITE_INFO, SiteInfo


def incoming(site: SiteInfo = EMPTY_SITE_INFO) -> SimpleNamespace:
    return SimpleNamespace(request_id="id1", response_reason="", site=site, request=SimpleNamespace(host_port="app.example.com"))


def request_with(accept: str):
    request = RequestFactory().get("/", headers={"accept": accept})
    request.scope = {"gate": SimpleNamespace(incoming=incoming())}
    return request


@pytest.mark.parametrize(
    ("accept", "content_type"), [("text/html", "text/html"), ("application/json", "application/json"), ("", "text/plain")]
)
def test_an_error_page_has_the_form_the_client_reads(accept: str, content_type: str) -> None:
    request = request_with(accept)
    response = responses.render_error(request, 400, "Because.")
    assert response.status_code == 400
    assert request.scope["gate"].incoming.response_reason == "Because."
    assert response.headers["Content-Type"].startswith(content_type)
    assert response.headers["X-Request-Id"] == "id1"
    assert b"Because." in response.content


def test_gate_cookies_leave_django_with_every_attribute() -> None:
    made = cookies.set_cookie("__Host-gate_signin_abc-_1", "aA0-_", max_age=60, secure=True)
    response = responses.redirect("https://a.example/", [made, cookies.set_cookie("_gate", "", max_age=0, secure=True, domain="a.example")])
    first, second = (morsel.OutputString() for morsel in response.cookies.values())
    for attribute in ("__Host-gate_signin_abc-_1=aA0-_", "Path=/", "Max-Age=60", "SameSite=Lax", "Secure", "HttpOnly"):
        assert attribute in first
    assert "Domain=a.example" in second
    assert "Max-Age=0" in second


def test_every_response_has_gate_headers() -> None:
    for response in (responses.redirect("/"), responses.render_error(request_with(""), 404, "x")):
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (responses.handler400(request_with(""), ValueError("secret")), 400),
        (responses.handler403(request_with(""), ValueError("secret")), 403),
        (responses.handler404(request_with(""), ValueError("secret")), 404),
        (responses.handler500(request_with("")), 500),
        (responses.csrf_failure(request_with(""), reason="secret"), 403),
    ],
)
def test_django_failure_displays_request_id_and_no_cause(answer: HttpResponse, status: int) -> None:
    assert answer.status_code == status
    assert answer.headers["X-Request-Id"] == "id1"
    assert b"secret" not in answer.content
