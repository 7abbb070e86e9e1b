import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from foundation.web import pages
from foundation.web.brand import Brand

HOSTILE = "<script>alert(1)</script>\"'&"


def test_json_errors_have_the_four_members() -> None:
    content_type, body = pages.error_response(403, HOSTILE, "id1", "application/json")
    assert content_type == "application/json"
    assert json.loads(body) == {"status": 403, "error": "Forbidden", "reason": HOSTILE, "request_id": "id1"}


def test_nothing_hostile_comes_out_of_a_page_as_markup() -> None:
    _, body = pages.error_response(403, HOSTILE, HOSTILE, "text/html", advice=HOSTILE, links=((HOSTILE, "/?" + HOSTILE),))
    assert b"<script" not in body
    assert b"\"'&" not in body


def test_a_text_error_names_reason_and_request_id() -> None:
    content_type, body = pages.error_response(502, "No answer.", "id1", "*/*", advice="Wait.")
    assert content_type.startswith("text/plain")
    assert body.decode().splitlines() == ["502 Bad Gateway", "No answer.", "Wait.", "request id: id1"]


def test_the_one_inline_style_is_the_one_that_the_policy_allows() -> None:
    _, body = pages.error_response(404, "x", "id", "text/html")
    (style,) = re.findall(rb"<style>(.*?)</style>", body, re.DOTALL)
    allowed = dict(pages.security_headers())["Content-Security-Policy"]
    assert f"'sha256-{base64.b64encode(hashlib.sha256(style).digest()).decode()}'" in allowed
    assert b" style=" not in body


def test_a_page_has_the_brand_of_the_configuration_in_force() -> None:
    brand = Brand.from_options("<Example> Corp", 'data:image/png;base64,AA=="', "#0b6e4f")
    page = pages.error_response(404, "x", "id", "text/html", brand=brand)[1].decode()
    assert '<img src="data:image/png;base64,AA==&#34;" alt=""><bdi>&lt;Example&gt; Corp</bdi>' in page
    assert "fill='%230b6e4f'" in page
    assert brand.style in dict(pages.security_headers(style=brand.style))["Content-Security-Policy"]
    assert brand.style not in dict(pages.security_headers())["Content-Security-Policy"]
    (style,) = re.findall("(?s)<style>(.*?)</style>", page)
    assert style == brand.stylesheet
    own = pages.error_response(404, "x", "id", "text/html")[1].decode()
    assert "</svg><bdi>gate</bdi>" in own
    assert "<img" not in own


def test_only_the_time_script_runs_where_times_are_displayed() -> None:
    context = {"user": "p", "url": "s", "sent": "t", "target": "/", "field": "f", "id": "i"}
    assert b"<script" not in pages.render("kept_form.html", **context)
    assert "script-src" not in dict(pages.security_headers())["Content-Security-Policy"]
    (script,) = re.findall(rb"(?s)<script>(.*?)</script>", pages.render("kept_form.html", shows_times=True, **context))
    allowed = re.search(r"script-src ([^;]*)", dict(pages.security_headers(shows_times=True))["Content-Security-Policy"])
    assert allowed is not None
    # 'self' would be the application's scripts, too, at the host of a route.
    assert allowed[1] == f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"


def test_every_page_is_guarded_against_framing_sniffing_and_caching() -> None:
    headers = dict(pages.security_headers())
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


def test_page_with_form_leading_to_provider_has_no_form_action() -> None:
    assert "form-action 'self'" in dict(pages.security_headers())["Content-Security-Policy"]
    assert "form-action" not in dict(pages.security_headers(""))["Content-Security-Policy"]


@pytest.mark.parametrize("sheet", [pages.TEMPLATES / "gate.css", pages.STATIC / "portal.css"], ids=lambda path: path.name)
def test_no_style_names_a_side_that_is_another_in_arabic(sheet: Path) -> None:
    text = sheet.read_text()
    assert not re.findall(
        r"(?:margin|padding|border|inset)-(?:left|right)|(?<![\w-])(?:left|right|float):|text-align: *(?:left|right)", text
    )
    for name, of_four in re.findall(r"(margin|padding|inset): ([^;}]+)", text):
        _top, right, _bottom, left = (of_four.split() + [""] * 4)[:4]
        assert not left or left == right, f"{name}: {of_four}"


def test_a_missing_value_is_an_error_never_an_empty_place() -> None:
    import jinja2

    with pytest.raises(jinja2.UndefinedError):
        pages.render("error.html", status=403)
