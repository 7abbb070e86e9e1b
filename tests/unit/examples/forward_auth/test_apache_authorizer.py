"""Responses of the authorizer to Apache; tests/integration/test_forward_auth.py covers the complete path."""

import http.client
import io

from examples.forward_auth.apache_authorizer import ANSWERED_WITHOUT_GATE, COPIED, pairs, render_response


class _Socket(io.BytesIO):
    def makefile(self, *_: object) -> io.BytesIO:
        return self


def response(*lines: bytes, body: bytes = b"") -> http.client.HTTPResponse:
    answer = http.client.HTTPResponse(_Socket(b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])))  # type: ignore[arg-type]
    answer.begin()
    return answer


def test_parameters_of_any_length_are_read() -> None:
    name, value = b"HTTP_COOKIE", b"x" * 300
    data = b"\x04\x03" + b"NAMEabc" + bytes([len(name)]) + (0x80000000 | len(value)).to_bytes(4, "big") + name + value
    assert list(pairs(data)) == [("NAME", "abc"), ("HTTP_COOKIE", "x" * 300)]


def test_a_permission_names_every_header_even_an_absent_one() -> None:
    lines = render_response(response(b"HTTP/1.1 200 OK", b"X-Gate-Claim-Email: ann@example.com", b"Cookie: ")).decode().split("\r\n")
    assert lines[:2] == ["Status: 200 OK", "Variable-GATE_PERMITS: 1"]
    assert "Variable-GATE_X_GATE_CLAIM_EMAIL: ann@example.com" in lines
    assert "Variable-GATE_X_GATE_CLAIM_GROUPS: " in lines
    assert sum(line.startswith("Variable-GATE_") for line in lines) == len(COPIED) + 1


def test_a_refusal_goes_on_as_it_is_and_sets_no_variable() -> None:
    answer = response(
        b"HTTP/1.1 302 Found", b"Location: https://a.example/", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"Connection: close", body=b"x"
    )
    assert render_response(answer) == b"Status: 302 Found\r\nLocation: https://a.example/\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nx"
    assert b"Variable-" not in render_response(response(b"HTTP/1.1 403 Forbidden"))


def test_the_clients_own_word_about_the_url_is_not_passed_to_gate() -> None:
    for name in ("x-original-url", "x-forwarded-uri", "x-forwarded-method", "host", "connection", "x-forwarded-for"):
        assert ANSWERED_WITHOUT_GATE.fullmatch(name)
    for name in ("cookie", "origin", "x-gate-claim-email", "sec-websocket-key", "accept"):
        assert not ANSWERED_WITHOUT_GATE.fullmatch(name)
