import json

import pytest

from foundation.web.languages import translate
from foundation.web.pages import ERROR_TITLES
from proxy.responses.renderer import send_denial, send_grpc_error, send_redirect, send_text
from proxy.verdict import Deny
from tests.support.asgi import NAVIGATION, Answer, incoming_from

GONE = ERROR_TITLES[410]


async def test_an_error_has_the_form_the_client_reads_and_the_request_id() -> None:
    for headers, content_type in (
        (NAVIGATION, "text/html"),
        ({"accept": "application/json"}, "application/json"),
        ({}, "text/plain"),
        ({"sec-fetch-mode": "cors", "accept": "text/html"}, "application/json"),
    ):
        answer, incoming = Answer(), incoming_from("https://a.example/", headers=headers)
        await send_denial(incoming, Deny(403, "Because."), answer.send)
        assert answer.status == 403
        assert answer.header("content-type").startswith(content_type)
        assert answer.header("x-request-id") == incoming.request_id
        assert incoming.request_id in answer.body.decode()
        assert int(answer.header("content-length")) == len(answer.body)


async def test_page_is_in_the_reader_s_language_with_vary_header() -> None:
    assert len({GONE, translate(GONE, "de"), translate(GONE, "fr")}) == 3
    refusal = Deny(404, GONE, extra_headers=[(b"vary", b"Origin")])
    for headers, text, vary in (
        ({**NAVIGATION, "accept-language": "de-DE,de;q=0.9"}, translate(GONE, "de"), "Accept, Accept-Language"),
        (
            {**NAVIGATION, "accept-language": "\xff;q=\xfe, fr;q=0.1"},
            translate(GONE, "fr"),
            "Accept, Accept-Language",
        ),
        (NAVIGATION, GONE, "Accept, Accept-Language"),
        ({"accept": "application/json", "accept-language": "de"}, GONE, "Accept"),
        ({"accept-language": "de"}, GONE, "Accept"),
    ):
        answer, incoming = Answer(), incoming_from("https://a.example/", headers=headers)
        await send_denial(incoming, refusal, answer.send)
        assert text in answer.body.decode()
        assert answer.values("vary") == [vary, "Origin"]
        assert incoming.response_reason == GONE  # the log's


async def test_head_gets_the_headers_of_get_and_no_body() -> None:
    answer = Answer()
    await send_denial(incoming_from("https://a.example/", method="HEAD"), Deny(404, "Nothing."), answer.send)
    assert answer.body == b""
    assert int(answer.header("content-length")) > 0
    text = Answer()
    await send_text(incoming_from("https://a.example/ping", method="HEAD"), text.send, 200, "OK\n")
    assert (text.body, text.header("content-length")) == (b"", "3")


async def test_a_grpc_client_gets_its_status_in_headers() -> None:
    answer = Answer()
    await send_denial(
        incoming_from("https://a.example/", headers={"content-type": "application/grpc+proto"}), Deny(401, "No 100%é"), answer.send
    )
    assert answer.status == 200
    assert (answer.header("grpc-status"), answer.header("grpc-message")) == ("16", "No 100%25?")
    assert answer.header("www-authenticate") == 'Bearer realm="gate"'
    unknown = Answer()
    await send_grpc_error(unknown.send, 418, "x", [])
    assert unknown.header("grpc-status") == "2"


@pytest.mark.parametrize(("status", "name", "expected"), [(401, "www-authenticate", ['Bearer realm="gate"']), (503, "retry-after", ["5"])])
async def test_response_has_the_headers_of_its_status(status: int, name: str, expected: list[str]) -> None:
    for headers in ({"accept": "application/json"}, {"content-type": "application/grpc"}):
        answer = Answer()
        await send_denial(incoming_from("https://a.example/", headers=headers), Deny(status, "No."), answer.send)
        assert answer.values(name) == expected


async def test_a_redirect_sets_cookies_and_is_never_cached() -> None:
    answer = Answer()
    await send_redirect(incoming_from("https://a.example/"), answer.send, "https://b.example/", set_cookies=["a=1", "b=2"])
    assert (answer.status, answer.header("location"), answer.header("cache-control")) == (302, "https://b.example/", "no-store")
    assert answer.values("set-cookie") == ["a=1", "b=2"]


async def test_json_errors_survive_any_reason() -> None:
    answer = Answer()
    await send_denial(
        incoming_from("https://a.example/", headers={"accept": "application/json"}), Deny(400, 'a"\r\n\u2028<b>'), answer.send
    )
    assert json.loads(answer.body)["reason"] == 'a"\r\n\u2028<b>'
