"""Rejected requests have an id in the response, and a log line without request data."""

import pytest
import structlog

from foundation.telemetry.logs import BoundedLog
from proxy.listener.http1 import rejection_log
from proxy.listener.http1.rejection_log import log_listener_rejection
from proxy.listener.http1.request_head import HeadReader, RequestRejected

SECRET = b"s3cret"


@pytest.fixture(autouse=True)
def unbounded(monkeypatch):
    monkeypatch.setattr(rejection_log, "_LOG", BoundedLog("request rejected by listener", level="info"))


REFUSED = {
    b"GET / HTTP/1.0\r\nHost: a\r\n\r\n": (426, b"proxy_http_version 1.1"),
    b"GET /\xc3\xbc-s3cret HTTP/1.1\r\nHost: a\r\n\r\n": (400, b"must be percent-encoded"),
    b"GET / HTTP/1.1\r\nHost: a\r\nX s3cret: 1\r\n\r\n": (400, b"A header line is malformed."),
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n": (414, b"The URL is too long."),
    b"GET / HTTP/1.1\r\nHost: a\r\nExpect: s3cret\r\n\r\n": (417, b"expectation"),
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + b"\r\n\r\n": (431, b"too large"),
    b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: s3cret\r\n\r\n": (501, b"transfer coding"),
    b"GET / HTTP/3.0\r\nHost: a\r\n\r\n": (505, b"HTTP/1.1"),
}


@pytest.mark.parametrize("request_bytes", REFUSED, ids=[str(status) for status, _ in REFUSED.values()])
def test_a_refusal_has_an_id_and_a_line_in_the_log(canary, request_bytes):
    status, reason = REFUSED[request_bytes]
    answer, _ = canary.ask(request_bytes)
    assert (answer.status, reason in answer.body, SECRET in answer.body) == (status, True, False)
    assert len(answer.header("x-request-id")) == 32
    with pytest.raises(RequestRejected) as refused:
        HeadReader().read(bytearray(request_bytes))
    with structlog.testing.capture_logs() as lines:
        log_listener_rejection(refused.value, ["127.0.0.1", 5])
    (line,) = lines
    assert (line["event"], line["status"], line["client_address"]) == ("request rejected by listener", status, "127.0.0.1")
    assert line["request_id"] == refused.value.request_id
    assert SECRET.decode() not in str(line)


@pytest.mark.parametrize(("client", "logged"), [(["192.0.2.7", 5], "192.0.2.7"), (("192.0.2.7", 5), "192.0.2.7"), (None, "")])
def test_a_peer_without_an_address_is_logged_as_none(client, logged):
    with structlog.testing.capture_logs() as lines:
        log_listener_rejection(RequestRejected(400, "No."), client)
    assert [line["client_address"] for line in lines] == [logged]
