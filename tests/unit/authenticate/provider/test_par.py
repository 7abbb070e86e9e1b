"""A request that is pushed leaves nothing in the browser to change, and one that can't be pushed is not sent in the open instead."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.authenticate_site import Site
from tests.support.fake_idp import Answer

URI = "urn:ietf:params:oauth:request_uri:abc"


@pytest.fixture
def par(site: Site) -> Site:
    site.idp.bend.discovery = {"pushed_authorization_request_endpoint": f"{site.idp.issuer}/par"}
    site.idp.bend.answers["/par"] = Answer.json({"request_uri": URI, "expires_in": 60}, 201)
    return site


async def test_browser_receives_only_the_request_uri(par: Site) -> None:
    url = urlsplit(await par.browser().to_provider())
    assert parse_qs(url.query) == {"client_id": ["gate"], "request_uri": [URI]}
    (request,) = [request for request in par.idp.requests if request.path == "/par"]
    assert request.headers["authorization"].startswith("Basic ")
    assert request.form.keys() >= {"state", "nonce", "code_challenge", "redirect_uri", "scope", "response_type", "client_id"}
    assert (request.form["response_type"], request.form["code_challenge_method"]) == ("code", "S256")


@pytest.mark.parametrize(
    "answer",
    [
        Answer.json({"error": "unauthorized_client", "error_description": "no PAR for\r\nthis client"}, 400),
        Answer.json({"error": "invalid_request"}, 400),
        Answer(500),
        Answer(302, headers={"Location": "/"}),
        Answer(201, b"<html>"),
        Answer.json({}, 201),
        Answer.json({"request_uri": ""}, 201),
        Answer.json({"request_uri": 7}, 201),
        Answer.json({"request_uri": "a\nb"}, 201),
        Answer.json({"request_uri": "u" * 3000}, 201),
    ],
)
async def test_a_request_that_can_not_be_pushed_goes_nowhere(par: Site, answer: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    par.idp.bend.answers["/par"] = answer
    response = await par.browser().get(par.sign_in_url())
    assert (response.status, response.headers.get("location"), response.headers["retry-after"]) == (503, None, "30")
    assert "unauthorized_client" not in response.text
    output = capsys.readouterr().out
    assert "pushed authorization request" in output or "JSON object" in output
    if b"unauthorized_client" in answer.body:
        assert "unauthorized_client (no PAR for this client)" in output


@pytest.mark.parametrize(
    ("description", "status", "advice"),
    [
        ("Authentication failed.", 401, "client secret"),
        ("Invalid parameter: redirect_uri", 400, "https://auth.example.com"),
    ],
)
async def test_log_suggests_likely_cause(par: Site, description: str, status: int, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    par.idp.bend.answers["/par"] = Answer.json({"error": "invalid_request", "error_description": description}, status)
    assert (await par.browser().get(par.sign_in_url())).status == 503
    logged = capsys.readouterr().out
    assert f"invalid_request ({description})" in logged
    assert advice in logged


async def test_provider_requiring_pushed_requests_declares_endpoint(site: Site) -> None:
    site.idp.bend.discovery = {"require_pushed_authorization_requests": True}
    assert (await site.browser().get(site.sign_in_url())).status == 503


async def test_a_place_for_pushed_requests_keeps_to_tls(site: Site) -> None:
    site.idp.bend.discovery = {"pushed_authorization_request_endpoint": "http://par.example/"}
    assert (await site.browser().get(site.sign_in_url())).status == 503
