"""Invalid request heads are rejected and the connection closes, without running the application."""

import pytest

from foundation.web.problem_details import default_advice
from proxy.listener.http1.request_head import (
    _COMMON_METHODS,
    IGNORED_HEADER_NAMES,
    HeadReader,
    RequestRejected,
    _require_method,
    parse_head,
    validate_partial_head,
)

VALID = b"GET /a/b?c=d HTTP/1.1\r\nHost: app.example.com\r\n"


def request(*lines: bytes, host: bytes | None = b"Host: app.example.com", line: bytes = b"GET / HTTP/1.1") -> bytes:
    return b"\r\n".join([line, *([host] if host else []), *lines, b"", b""])


REFUSED = {
    "HTTP/1.0": (426, request(line=b"GET / HTTP/1.0")),
    "HTTP/1.0 with a chunked body": (426, request(b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0")),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "HTTP/1.2": (505, request(line=b"GET / HTTP/1.2")),
    "the preface of HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "lower-case protocol": (400, request(line=b"GET / http/1.1")),
    "two-digit version": (400, request(line=b"GET / HTTP/1.10")),
    "two spaces in the request line": (400, request(line=b"GET  / HTTP/1.1")),
    "a tab in the request line": (400, request(line=b"GET\t/ HTTP/1.1")),
    "a space in the target": (400, request(line=b"GET /a b HTTP/1.1")),
    "a space after the version": (400, request(line=b"GET / HTTP/1.1 ")),
    "a space before the method": (400, request(line=b" GET / HTTP/1.1")),
    "a method that is no token": (400, request(line=b"G(T / HTTP/1.1")),
    "an endless method": (501, request(line=b"M" * 200 + b" / HTTP/1.1")),
    "TRACE": (405, request(line=b"TRACE / HTTP/1.1")),
    "TRACK": (405, request(line=b"TRACK / HTTP/1.1")),
    "trace": (400, request(line=b"trace / HTTP/1.1")),
    "connect": (400, request(line=b"connect db:5432 HTTP/1.1")),
    "delete": (400, request(line=b"delete / HTTP/1.1")),
    "Get": (400, request(line=b"Get / HTTP/1.1")),
    "an unknown method in lower case": (400, request(line=b"PURGe / HTTP/1.1")),
    "CONNECT without a port": (400, b"CONNECT db HTTP/1.1\r\nHost: db\r\n\r\n"),
    "CONNECT to port 0": (400, b"CONNECT db:0 HTTP/1.1\r\nHost: db:0\r\n\r\n"),
    "CONNECT to another host than Host": (400, request(line=b"CONNECT db:5432 HTTP/1.1")),
    "CONNECT to a path": (400, request(line=b"CONNECT / HTTP/1.1")),
    "CONNECT to a URL": (400, request(line=b"CONNECT https://db:5432 HTTP/1.1")),
    "CONNECT with a body": (400, b"CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\nContent-Length: 0\r\n\r\n"),
    "CONNECT with chunks": (400, b"CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "CONNECT by HTTP/1.0": (426, b"CONNECT db:5432 HTTP/1.0\r\nHost: db:5432\r\n\r\n"),
    "asterisk": (400, request(line=b"OPTIONS * HTTP/1.1")),
    "a relative target": (400, request(line=b"GET a HTTP/1.1")),
    "a fragment": (400, request(line=b"GET /public#/../admin HTTP/1.1")),
    "a control byte in the target": (400, request(line=b"GET /\x01 HTTP/1.1")),
    "a high byte in the target": (400, request(line=b"GET /\xe4 HTTP/1.1")),
    "an absolute target of another host": (400, request(line=b"GET http://other.example.com/ HTTP/1.1")),
    "an absolute target with a user": (400, request(line=b"GET http://u@app.example.com/ HTTP/1.1")),
    "an absolute target of another scheme": (400, request(line=b"GET ftp://app.example.com/ HTTP/1.1")),
    "CR LF in an absolute target": (400, request(line=b"GET http://app.example.com/\r\nX: y HTTP/1.1")),
    "no Host": (400, request(host=None)),
    "two Hosts": (400, request(b"Host: app.example.com")),
    "two Hosts in another case": (400, request(b"hOST: other.example.com")),
    "an empty Host": (400, request(host=b"Host:")),
    "a Host list": (400, request(host=b"Host: a,b")),
    "a Host with a user": (400, request(host=b"Host: u@app.example.com")),
    "a Host with a path": (400, request(host=b"Host: app.example.com/x")),
    "a Host with a bad port": (400, request(host=b"Host: app.example.com:443x")),
    "a Host with a space": (400, request(host=b"Host: app example.com")),
    "a Host with fullwidth dots": (400, request(host="Host: app。example.com".encode())),
    "a folded line": (400, request(b"X: a", b" b")),
    "a folded first line": (400, request(b"X: a", host=b" Host: app.example.com")),
    "a space before the colon": (400, request(b"X : a")),
    "a space before the name": (400, request(b" X: a")),
    "a tab before the colon": (400, request(b"Content-Length\t: 3")),
    "no colon": (400, request(b"X")),
    "an empty name": (400, request(b": a")),
    "a name that is no token": (400, request(b"X(y): a")),
    "a high byte in a name": (400, request(b"X\xe4: a")),
    "NUL in a value": (400, request(b"X: a\0b")),
    "bare CR in a value": (400, request(b"X: a\rb")),
    "bare LF in a value": (400, request(b"X: a\nX-Gate-Jwt-Assertion: forged")),
    "bare LF after the request line": (400, b"GET / HTTP/1.1\nHost: app.example.com\r\n\r\n"),
    "bare LF everywhere": (400, b"GET / HTTP/1.1\nHost: app.example.com\n\n"),
    "DEL in a value": (400, request(b"X: a\x7f")),
    "vertical tab in a value": (400, request(b"X: a\x0bb")),
    "form feed in a value": (400, request(b"X: a\x0cb")),
    "a file separator in a value": (400, request(b"X: a\x1cb")),
    "a next-line byte in a value": (400, request(b"X: a\x85X-Gate-Jwt-Assertion: forged")),
    "a next-line character in UTF-8": (400, request(b"X: a\xc2\x85b")),
    "a C1 byte alone": (400, request(b"X: a\x9bb")),
    "a C1 byte after an overlong lead": (400, request(b"X: a\xc1\x85b")),
    "a C1 byte of a truncated character": (400, request(b"X: a\xe5\x85")),
    "a C1 byte of a surrogate": (400, request(b"X: a\xed\xa0\x85b")),
    "a C1 byte after a whole character": (400, request(b"X: a\xc3\x85\x85b")),
    "a C1 byte beyond Unicode": (400, request(b"X: a\xf4\x90\x85\x85b")),
    "two lengths": (400, request(b"Content-Length: 3", b"Content-Length: 4")),
    "two equal lengths": (400, request(b"Content-Length: 3", b"Content-Length: 3")),
    "a length list": (400, request(b"Content-Length: 3, 3")),
    "a signed length": (400, request(b"Content-Length: +3")),
    "a negative length": (400, request(b"Content-Length: -3")),
    "a length with an underscore": (400, request(b"Content-Length: 1_0")),
    "a hexadecimal length": (400, request(b"Content-Length: 0x3")),
    "an empty length": (400, request(b"Content-Length:")),
    "an endless length": (400, request(b"Content-Length: " + b"9" * 30)),
    "length and coding": (400, request(b"Content-Length: 3", b"Transfer-Encoding: chunked")),
    "coding and length": (400, request(b"Transfer-Encoding: chunked", b"Content-Length: 0")),
    "two codings": (400, request(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked")),
    "a coding list": (501, request(b"Transfer-Encoding: gzip, chunked")),
    "identity coding": (501, request(b"Transfer-Encoding: identity")),
    "chunked with a parameter": (501, request(b"Transfer-Encoding: chunked;q=1")),
    "chunked with a Kelvin sign": (501, request("Transfer-Encoding: chun\u212aed".encode())),
    "an empty coding": (501, request(b"Transfer-Encoding:")),
    "another expectation": (417, request(b"Expect: 200-ok", b"Content-Length: 1")),
    "two expectations": (417, request(b"Expect: 100-continue", b"Expect: 100-continue", b"Content-Length: 1")),
    "a long URL": (414, request(line=b"GET /" + b"a" * 8192 + b" HTTP/1.1")),
    "an endless URL": (414, b"GET /" + b"a" * 60000),
    "a large header": (431, request(b"X: " + b"a" * 17000)),
    "large headers": (431, request(*[b"X: " + b"a" * 12000] * 3)),
    "endless headers": (431, b"GET / HTTP/1.1\r\nHost: app.example.com\r\n" + b"X: yyyy\r\n" * 9000),
    "101 headers": (431, request(*[b"X: a"] * 100)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_head_is_refused_and_the_connection_closes(canary, name):
    status, data = REFUSED[name]
    with pytest.raises(RequestRejected) as refused:
        HeadReader().read(bytearray(data))
    assert refused.value.status == status
    response, is_closed = canary.ask(data)
    assert (response.status, is_closed) == (status, True)
    assert canary.calls == []


def test_rejection_has_a_reason(canary):
    assert canary.ask(request(host=None))[0].body == b"400 Exactly one Host header is required.\n%b\n" % default_advice(400).encode()


def test_a_refused_method_names_the_allowed_ones(canary):
    assert "GET" in canary.ask(request(line=b"TRACE / HTTP/1.1"))[0].header("allow")


def test_old_client_gets_upgrade_required(canary):
    assert canary.ask(request(line=b"GET / HTTP/1.0"))[0].header("upgrade") == "HTTP/1.1"


@pytest.mark.parametrize("size", [1, 7])
def test_a_head_may_come_in_pieces(canary, size):
    data = request(b"X-Tag: piecemeal", b"Connection: close")
    with canary.connect() as client:
        for offset in range(0, len(data), size):
            client.send(data[offset : offset + size])
        assert client.response().status == 200
    assert ["x-tag", "piecemeal"] in canary.calls[0]["headers"]


@pytest.mark.parametrize("offset", range(30))
def test_a_bare_line_feed_is_seen_wherever_the_segments_split(offset):
    data = b"GET / HTTP/1.1\r\nHost: a\r\nX: y\nZ: z"
    validate_partial_head(data[:offset], 0)
    with pytest.raises(RequestRejected) as refused:
        validate_partial_head(data, offset)
    assert refused.value.status == 400


def test_the_head_arrives_as_it_was_sent(canary):
    canary.ask(request(b"X-One:  spaced value\t", b"X-Two:", b"x-one: again", line=b"M-SEARCH /a%2Fb//c?d=%20&e HTTP/1.1"))
    call = canary.calls[0]
    assert (call["method"], call["path"], call["query"]) == ("M-SEARCH", "/a%2Fb//c", "d=%20&e")
    assert call["headers"] == [["host", "app.example.com"], ["x-one", "spaced value"], ["x-two", ""], ["x-one", "again"]]


@pytest.mark.parametrize(
    "name", [b"X_Gate_Jwt_Assertion", b"X-Gate_Jwt-Assertion", b"Content_Length", b"Daphne-Root-Path", b"daphne-root-path"]
)
def test_ambiguous_header_names_are_dropped(canary, name):
    canary.ask(request(name + b": 5"))
    assert canary.calls[0]["headers"] == [["host", "app.example.com"]]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://app.example.com/x?y", b"/x", b"y"),
        (b"https://APP.example.com", b"/", b""),
        (b"http://app.example.com?y=/z", b"/", b"y=/z"),
        (b"http://app.example.com//etc/x", b"//etc/x", b""),
    ],
)
def test_an_absolute_target_of_this_host_becomes_a_path(target, path, query):
    head = parse_head(request(line=b"GET " + target + b" HTTP/1.1")[:-2])
    assert (head.raw_path, head.query_string) == (path, query)


def test_parses_valid_head():
    head = parse_head(VALID + b"Content-Length: 12\r\nExpect: 100-Continue\r\nConnection: x, Close\r\n")
    assert (head.raw_path, head.query_string, head.body_length) == (b"/a/b", b"c=d", 12)
    assert head.expects_continue
    assert head.wants_close


def test_expect_without_body_is_ignored():
    assert not parse_head(VALID + b"Expect: 100-continue\r\n").expects_continue


def test_chunked_is_recognised_in_any_case():
    assert parse_head(VALID + b"Transfer-Encoding: ChunkeD\r\n").body_length is None


@pytest.mark.parametrize("host", [b"localhost:8443", b"[::1]:443", b"a_b.example", b"127.0.0.1", b"xn--bcher-kva.example."])
def test_ordinary_hosts_are_accepted(host):
    assert parse_head(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n").headers == [(b"host", host)]


@pytest.mark.parametrize("filler", [b" " * 16000, b"\t " * 8000, b"a " * 8000])
def test_hostile_value_is_parsed_in_linear_time(filler):
    with pytest.raises(RequestRejected):
        parse_head(VALID + b"X:" + filler + b"\x01\r\n")


def test_an_upgrade_is_an_ordinary_request(canary):
    canary.ask(
        request(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13")
    )
    call = canary.calls[0]
    assert call["type"] == "http"
    assert ["upgrade", "websocket"] in call["headers"]


@pytest.mark.parametrize("value", [b"websocket", b"WebSocket", b"websocket, h2c", b"h2c, websocket"])
def test_bytes_after_websocket_handshake_are_no_request(canary, value):
    answer, closed = canary.ask(request(b"Connection: Upgrade", b"Upgrade: " + value) + request())
    assert (answer.status, closed) == (200, True)
    assert len(canary.calls) == 1


@pytest.mark.parametrize(("target", "is_bare"), [(b"/a?", True), (b"/a", False), (b"/a?b", False), (b"http://x/a?", True)])
def test_reports_empty_query(target, is_bare):
    assert parse_head(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n").has_empty_query == is_bare


def test_one_empty_line_before_a_request_is_ignored(canary):
    assert canary.ask(b"\r\n" + request(b"Connection: close"))[0].status == 200


def test_two_empty_lines_are_not(canary):
    assert canary.ask(b"\r\n\r\n" + request())[0].status == 400


def test_reads_head_byte_by_byte_after_one_empty_line():
    data, search, buffer = b"\r\n" + request(b"X: y"), HeadReader(), bytearray()
    for byte in data[:-1]:
        buffer.append(byte)
        assert search.read(buffer) is None
    buffer += data[-1:] + b"\r\nmore"
    head, end = search.read(buffer)
    assert (head, buffer[end:]) == (parse_head(request(b"X: y")[:-2]), b"\r\nmore")
    with pytest.raises(RequestRejected):
        HeadReader().read(bytearray(b"\r\n\r\n" + request()))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), (0, False, False, False)),
        ((b"Content-Length: 3", b"Expect: 100-Continue"), (3, True, False, False)),
        ((b"Transfer-Encoding: Chunked", b"Expect: 100-continue"), (None, True, False, False)),
        ((b"Connection: x, Close",), (0, False, True, False)),
        ((b"Connection: closed",), (0, False, False, False)),
        ((b"Connection: Upgrade", b"Upgrade: WebSocket"), (0, False, True, True)),
        ((b"Connection: Upgrade", b"Upgrade: SPDY/3.1"), (0, False, True, True)),
        ((b"Connection: Upgrade", b"Upgrade: h2c"), (0, False, False, False)),
    ],
)
def test_body_and_connection_properties_of_a_head(lines, expected):
    head = parse_head(request(*lines)[:-2])
    assert (head.body_length, head.expects_continue, head.wants_close, head.ends_http) == expected


@pytest.mark.parametrize("name", [*IGNORED_HEADER_NAMES, *(name.title() for name in IGNORED_HEADER_NAMES), b"X_Gate_Claim_Email", b"a_"])
def test_every_header_is_parsed_or_reported(name):
    head = parse_head(VALID + name + b": a\r\nX-Fine: b\r\n" + name + b": c\r\n")
    assert head.ignored_header_names == [name, name]
    assert dict(head.headers) == dict(parse_head(VALID + b"X-Fine: b\r\n").headers)


@pytest.mark.parametrize("authority", [b"db.example.com:5432", b"[::1]:22", b"DB.example.com:443"])
def test_connect_ends_http(authority: bytes) -> None:
    head = parse_head(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (authority, authority))
    assert (head.method, head.raw_path, head.query_string, head.body_length) == (b"CONNECT", b"/", b"", 0)
    assert head.ends_http
    assert head.wants_close


def test_common_methods_are_accepted():
    for method in _COMMON_METHODS:
        _require_method(method)


@pytest.mark.parametrize(
    "value", ["Åsa", "Архангельск", "内", "😅", "…", "\u2028", "é".encode("latin-1"), b"\xa0\xff\xc3", b"\xe9\xc3\x85"]
)
def test_utf_8_and_the_letters_of_latin_1_are_in_a_value_as_they_came(value):
    sent = value if isinstance(value, bytes) else value.encode()
    head = parse_head(request(b"Cookie: city=" + sent, b"X-City: " + sent)[:-2])
    assert (b"cookie", b"city=" + sent) in head.headers
    assert (b"x-city", sent) in head.headers


@pytest.mark.parametrize(
    ("line", "is_cookie"), [(b"Cookie: a=\x85", True), (b"COOKIE: a=\x1f", True), (b"X: \x85", False), (b"X-Cookie: \0", False)]
)
def test_malformed_cookie_rejection_has_a_hint(line, is_cookie):
    with pytest.raises(RequestRejected) as caught:
        parse_head(request(b"Cookie: fine=1", line)[:-2])
    assert (b"Delete the cookies" in caught.value.body, b"Cookie header is malformed" in caught.value.body) == (is_cookie, is_cookie)
