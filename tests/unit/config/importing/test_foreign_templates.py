"""Templates of the other product are not sent as text."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.importing.conversion import Conversion, ConvertedSection, ForeignKey
from config.importing.foreign_file import read
from config.importing.foreign_templates import convert_request_headers, drop_unresolved_templates
from config.importing.pomerium import convert
from config.importing.yaml_output import render_yaml

REFERENCES = [
    "${pomerium.client_cert_san_dns}", "${pomerium.request.headers[\"X-Access-Token\"]}", "${secret.a}", "$secret.a",
    "a$$${x}", "${", "$x", "${HOME}", "${user}", "${pomerium.jwt} ${secret.a}", "${pomerium.jwt} $x", "$pomerium.jwtx",
]  # fmt: skip
CONVERTED = {
    "${pomerium.access_token}": "${access_token}",
    "Bearer ${pomerium.access_token}": "Bearer ${access_token}",
    "$pomerium.access_token": "${access_token}",
    "${pomerium.id_token}": "${id_token}",
    "${pomerium.jwt}": "${assertion}",
    "${ pomerium . jwt }": "${assertion}",
    '${pomerium["jwt"]}': "${assertion}",
    "$$$pomerium.jwt": "$$${assertion}",
    "${pomerium.client_cert_fingerprint}": "${client_certificate.fingerprint}",
}


def headers(value: Any) -> tuple[dict[str, Any], str]:
    route = ConvertedSection()
    convert_request_headers(route, ForeignKey("routes[0].set_request_headers", 7), value)
    text = render_yaml(Conversion("x", route), "x")
    return yaml.safe_load(text), text


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_header_with_a_reference_is_left_out_and_marked(reference: str) -> None:
    found, text = headers({"X-A": reference, "X-B": "plain"})
    assert found["set_request_headers"] == {"X-B": "plain"}
    assert "# LOST routes[0].set_request_headers.X-A (line 7): " in text


@pytest.mark.parametrize("reference", CONVERTED)
def test_a_reference_that_gate_fills_in_too_becomes_its_own(reference: str) -> None:
    found, text = headers({"X-A": reference})
    assert found["set_request_headers"] == {"X-A": CONVERTED[reference]}
    assert found.get("pass_provider_tokens", False) is ("_token" in reference)
    assert "# CHECK routes[0].set_request_headers (line 7): X-A: " in text


@pytest.mark.parametrize(
    "value", ["${API_URL}", "${API_URL=http://api:8000}", "a{{ .Values.host }}", "{{ secret", "$(API_URL)", ["x", {"y": "${Z}"}]]
)
def test_a_template_of_another_tool_is_called_one(value: Any) -> None:
    route = ConvertedSection()
    route.set(None, "to", value)
    drop_unresolved_templates(Conversion("x", routes=[route]))
    assert "is a template of" in render_yaml(Conversion("x", route), "x")
    assert not route.has("to")


def test_a_doubled_sign_is_one_to_both() -> None:
    found, text = headers({"A": "5$$", "C": "1$ 2"})
    assert found["set_request_headers"] == {"A": "5$$", "C": "1$ 2"}
    assert "# CHECK routes" not in text


def test_headers_in_one_text_are_left_out_where_one_is_filled_in() -> None:
    assert "set_request_headers" not in headers("X-A:${pomerium.jwt}")[0]
    assert headers("X-A:b")[0]["set_request_headers"] == "X-A:b"


def test_no_reference_remains_in_printed_text(tmp_path: Path) -> None:
    route = {
        "from": "https://a.example.com",
        "to": "http://b",
        "set_request_headers": {f"X-{number}": reference for number, reference in enumerate(REFERENCES)},
        "allowed_users": ["${U}"],
    }
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({"idp_provider": "google", "idp_client_secret": "${S}", "routes": [route]}))
    converted = convert(read(tmp_path / "p.yaml"))
    drop_unresolved_templates(converted)
    assert "${" not in str(yaml.safe_load(render_yaml(converted, "x")))
    assert converted.lost == len(REFERENCES) + 2


def test_an_expression_may_have_a_dollar_sign_and_braces() -> None:
    route = ConvertedSection()
    route.set(None, "regex", "^/a${1}")
    drop_unresolved_templates(Conversion("x", routes=[route]))
    assert route.has("regex")
