"""An application's view of one request, over a real socket."""

import socket
import threading

import pytest

from tests.support.children import wait_until
from tests.support.raw_http import Broken

CHUNK = b"x" * 65536
# Upper bound of the kernel's loopback buffers; the tests send several times as much.
KERNEL_BYTES = 20 * 1024 * 1024


def get(path: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: canary", *lines, "", ""]).encode()


def post(path: str, body: bytes, *lines: str) -> bytes:
    return get(path, f"Content-Length: {len(body)}", *lines, method="POST") + body


def test_the_application_starts_before_the_body_is_complete(canary):
    with canary.connect() as client:
        client.send(get("/stream-echo", "Content-Length: 10", method="POST") + b"first")
        assert b"200 OK" in client._until(b"\r\n\r\n")
        assert client.chunk() == b"first"
        client.send(b"later")
        assert client.chunk() == b"later"
        assert client.chunk() == b""


def test_a_chunked_body_streams_too(canary):
    with canary.connect() as client:
        client.send(get("/stream-echo", "Transfer-Encoding: chunked", method="POST"))
        client._until(b"\r\n\r\n")
        for part in (b"one", b"two"):
            client.send(b"%x\r\n%b\r\n" % (len(part), part))
            assert client.chunk() == part
        client.send(b"0\r\n\r\n")
        assert client.chunk() == b""


def test_unread_upload_pauses_and_resumes(canary):
    size = 64 * 1024 * 1024
    with canary.connect() as client:
        client.send(get("/hold", f"Content-Length: {size}", method="POST"))
        accepted = client.offer(CHUNK, size)
        assert accepted < KERNEL_BYTES
        canary.control("release")
        while accepted < size:
            accepted += client.socket.send(CHUNK[: size - accepted])
        assert client.response().body == str(size).encode()


def test_unread_download_blocks_send(canary):
    with canary.connect() as client:
        client.send(get("/flood"))
        sent = [0]

        def has_stopped() -> bool:
            before, sent[0] = sent[0], canary.state["sent"]
            return 0 < before == sent[0]

        canary.wait_for("sent")
        wait_until(has_stopped, "the application waits")
        assert sent[0] < KERNEL_BYTES
        client._until(b"\r\n\r\n")
        for _ in range(4096):
            assert len(client.chunk()) == 65536
        assert canary.state["sent"] == 4096 * 65536


def test_blocked_send_raises_on_disconnect(canary):
    with canary.connect() as client:
        client.send(get("/flood"))
        canary.wait_for("sent")
    canary.wait_for("refused_sends")


def test_application_receives_disconnect(canary):
    with canary.connect() as client:
        client.send(get("/disconnect"))
        wait_until(lambda: canary.calls, "the application runs")
    canary.wait_for("disconnected")


def test_disconnect_within_body_is_no_complete_request(canary):
    with canary.connect() as client:
        client.send(get("/disconnect", "Content-Length: 10", method="POST") + b"half")
        wait_until(lambda: canary.calls, "the application runs")
    canary.wait_for("disconnected")


def test_events_are_flushed_at_once(canary):
    with canary.connect() as client:
        client.send(get("/events"))
        assert b"text/event-stream" in client._until(b"\r\n\r\n")
        canary.control("release")
        assert [client.chunk() for _ in range(4)] == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n", b""]


@pytest.mark.parametrize("path", ["/abort", "/fail-midway", "/stop-midway", "/too-short"])
def test_aborted_response_is_visibly_incomplete(canary, path):
    with canary.connect() as client, pytest.raises(Broken) as broken:
        client.send(get(path)).response()
    assert b"0\r\n\r\n" not in broken.value.received


def test_response_cannot_exceed_content_length(canary):
    with canary.connect() as client, pytest.raises(Broken):
        client.send(get("/too-long")).response()


@pytest.mark.parametrize("path", ["/fail", "/split-header"])
def test_application_error_before_response_is_a_500(canary, path):
    response, is_closed = canary.ask(get(path))
    assert (response.status, is_closed) == (500, True)
    assert response.header("set-cookie") is None


def test_error_text_is_not_leaked(canary):
    assert b"at once" not in canary.ask(get("/fail"))[0].body


def test_response_framing_is_set_by_gate(canary):
    with canary.connect() as client:
        response = client.send(get("/own-framing")).response()
    assert (response.header("transfer-encoding"), response.header("connection"), response.body) == (None, None, b"plain")


def test_response_of_unknown_length_is_chunked(canary):
    with canary.connect() as client:
        response = client.send(get("/unknown-length")).response()
    assert (response.header("transfer-encoding"), response.body) == ("chunked", b"one two three")


@pytest.mark.parametrize(
    ("path", "method"), [("/no-content", "GET"), ("/not-modified", "GET"), ("/unknown-length", "HEAD"), ("/early", "HEAD")]
)
def test_bodiless_responses_keep_framing_intact(canary, path, method):
    with canary.connect() as client:
        response = client.send(get(path, method=method)).response(method)
        assert response.header("transfer-encoding") is None
        assert client.send(post("/echo", b"next")).response().body == b"next"


def test_head_response_has_content_length(canary):
    with canary.connect() as client:
        assert client.send(get("/early", method="HEAD")).response("HEAD").header("content-length") == "2"


def test_a_refused_head_request_gets_no_body(canary):
    with canary.connect() as client:
        client.send(b"HEAD / HTTP/1.0\r\n\r\n")
        assert client.rest().endswith(b"\r\n\r\n")


def test_response_has_date_but_no_server_header(canary):
    response, _ = canary.ask(get("/", "Connection: close"))
    assert response.header("date").endswith("GMT")
    assert response.header("server") is None


def test_100_continue_is_sent_when_the_body_is_read(canary):
    with canary.connect() as client:
        client.send(get("/echo", "Content-Length: 4", "Expect: 100-continue", method="POST"))
        assert client.one_response().status == 100
        assert client.send(b"body").response().body == b"body"


def test_no_continue_for_unread_body(canary):
    response, is_closed = canary.ask(get("/early", "Content-Length: 4", "Expect: 100-continue", method="POST"))
    assert (response.status, is_closed) == (403, True)


def test_no_continue_before_application_receives(canary):
    with canary.connect() as client:
        client.send(get("/hold", "Content-Length: 4", "Expect: 100-continue", method="POST"))
        assert not client.is_closed(within=0.05)
        canary.control("release")
        assert client.one_response().status == 100


def test_the_client_address_is_the_sockets(canary):
    with canary.connect() as client:
        client.send(get("/", "X-Forwarded-For: 192.0.2.1")).response()
        assert canary.calls[0]["client"] == list(client.socket.getsockname())
    assert canary.calls[0]["scheme"] == "http"


def test_parallel_connections_do_not_wait_for_each_other(canary):
    with canary.connect() as held:
        held.send(get("/hold"))
        answers: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: answers.append(canary.ask(post("/echo", b"x", "Connection: close"))[0].body)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [b"x"] * 8
        held.socket.shutdown(socket.SHUT_RDWR)


def counted(canary) -> list[list]:
    """[method, status, bytes of body received, and sent] of what tests asked; the requests that ask for this come from another host."""
    return [facts for host, *facts in canary.state["ended"] if host != "canary"]


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"GET /no-content HTTP/1.1\r\nHost: x\r\n\r\n", ["GET", 204, 0, 0]),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", ["POST", 200, 4, 4]),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", ["POST", 200, 4, 4]),
        (b"GET /unknown-length HTTP/1.1\r\nHost: x\r\n\r\n", ["GET", 200, 0, 13]),
        (b"HEAD /unknown-length HTTP/1.1\r\nHost: x\r\n\r\n", ["HEAD", 200, 0, 0]),
        (b"GET /not-modified HTTP/1.1\r\nHost: x\r\n\r\n", ["GET", 304, 0, 0]),
        (b"GET /fail HTTP/1.1\r\nHost: x\r\n\r\n", ["GET", 500, 0, 0]),
        (b"GET /fail-midway HTTP/1.1\r\nHost: x\r\n\r\n", ["GET", 200, 0, 4]),
        (b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", ["POST", 403, 4, 2]),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\nZ\r\n", ["", 400, 0, 0]),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", ["", 400, 0, 0]),
        (b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", ["", 405, 0, 0]),
        (b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 9000), ["", 414, 0, 0]),
    ],
)
def test_request_is_counted_once_on_completion(canary, data, reported):
    method = data.partition(b" ")[0].decode()
    with canary.connect() as client:
        client.send(data)
        try:
            client.response(method)
        except Broken:
            assert b"fail-midway" in data
    wait_until(lambda: counted(canary), "it is counted")
    assert counted(canary) == [reported]


def test_malformed_body_is_counted_by_its_error_status(canary):
    with canary.connect() as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")
        canary.wait_for("received", 4)
        assert client.send(b"Z\r\n").response().status == 400
    wait_until(lambda: counted(canary), "it is counted")
    assert counted(canary) == [["POST", 400, 4, 0]]


def test_disconnect_before_response_is_counted_as_499(canary):
    with canary.connect() as client:
        client.send(b"GET /disconnect HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: canary.calls, "it has begun")
    wait_until(lambda: counted(canary), "it is counted")
    assert counted(canary) == [["GET", 499, 0, 0]]


def test_timeout_is_counted_by_its_status(hasty):
    with hasty.connect() as client:
        assert client.send(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n").response().status == 503
    with hasty.connect() as client:
        assert client.send(b"GET / HTT").response().status == 408
    wait_until(lambda: len(counted(hasty)) == 1, "one is counted")
    assert counted(hasty) == [["", 408, 0, 0]]  # /never has ten seconds to notice
