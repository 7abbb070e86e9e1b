"""No configuration can write a header that splits a message or pretends an identity."""

from typing import Any

import pytest

from config.fields.header_fields import (
    claim_names,
    header_map,
    removable_request_headers,
    removable_response_headers,
    request_headers,
    response_headers,
    route_response_headers,
)


@pytest.mark.parametrize("written", [{"X-A": "b", "X-C": "d:e"}, '{"X-A": "b", "X-C": "d:e"}', "X-A:b,X-C: d:e"])
def test_headers_have_three_written_forms(written: Any) -> None:
    assert header_map(written) == {"X-A": "b", "X-C": "d:e"}


@pytest.mark.parametrize(
    "written", ["X-A", "{", "[]", '"x"', "{}x", 5, None, ["X-A"], {"X-A": 1}, {1: "a"}, "X-A:b,X-A:c", {"X-A": "b", "x-a": "c"}]
)
def test_any_other_form_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|is not valid|RFC 9110|duplicate"):
        header_map(written)


@pytest.mark.parametrize("control", ["\r", "\n", "\r\n", "\x00", "\x0b", "\x1f", "\x7f", "\x85", "\u2028", "\u0100"])
def test_control_character_or_non_latin_1_text_is_refused(control: str) -> None:
    for headers in ({"X-A": f"a{control}b"}, {f"X{control}A": "b"}):
        with pytest.raises(ValueError, match=r"control characters|RFC 9110"):
            header_map(headers)


def test_a_value_of_a_folded_block_ends_in_a_line_break() -> None:
    with pytest.raises(ValueError, match="the value of X-A ends in a line break"):
        header_map({"X-A": "default-src 'self'\n"})


@pytest.mark.parametrize("name", ["", " X-A", "X-A ", "X A", "X:A", "X-Ä", ":authority", "X(A)"])
def test_a_header_name_is_a_token(name: str) -> None:
    with pytest.raises(ValueError, match="RFC 9110"):
        header_map({name: "a"})


@pytest.mark.parametrize(
    "name", ["Connection", "Transfer-Encoding", "content-length", "TE", "Trailer", "upgrade", "Keep-Alive", "Proxy-Connection"]
)
def test_headers_of_the_connection_can_not_be_set(name: str) -> None:
    for check in (request_headers, response_headers, route_response_headers):
        with pytest.raises(ValueError, match="is a hop-by-hop header"):
            check({name: "x"})
    with pytest.raises(ValueError, match="is a hop-by-hop header"):
        removable_response_headers([name])


@pytest.mark.parametrize("name", ["X-Gate-Jwt-Assertion", "x_gate_claim_email", "X.Gate-Claim-Groups", "x-gate-"])
def test_an_identity_header_can_not_be_set_by_hand(name: str) -> None:
    with pytest.raises(ValueError, match="is an identity header"):
        request_headers({name: "x"})


@pytest.mark.parametrize(("name", "message"), [("Set-Cookie", "cookies"), ("alt-svc", "http3")])
def test_own_response_headers_cannot_be_set(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        route_response_headers({name: "x"})
    assert removable_response_headers(["Server", name]) == ("Server", name)


def test_the_host_header_can_be_set() -> None:
    assert request_headers({"Host": "internal.example.com"}) == {"Host": "internal.example.com"}


@pytest.mark.parametrize("written", [{"disable": True}, {"disable": "true", "X-A": "b"}, "disable:true", '{"disable": true}'])
def test_disable_switches_response_headers_off(written: Any) -> None:
    assert response_headers(written) == {}


def test_disable_false_keeps_the_others() -> None:
    assert response_headers({"disable": False, "X-A": "b"}) == {"X-A": "b"}
    with pytest.raises(ValueError, match="disable"):
        response_headers({"disable": "perhaps"})


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding"])
def test_required_headers_cannot_be_removed(name: str) -> None:
    with pytest.raises(ValueError, match="can't be removed"):
        removable_request_headers([name])


def test_removable_headers_are_names() -> None:
    assert removable_request_headers("X-A,X-B") == ("X-A", "X-B")
    with pytest.raises(ValueError, match="RFC 9110"):
        removable_request_headers(["X A"])


def test_a_claim_that_makes_no_header_name_is_refused() -> None:
    assert claim_names(["email", "groups"]) == ("email", "groups")
    with pytest.raises(ValueError, match="X-Gate-Claim"):
        claim_names(["https://example.com/roles"])
