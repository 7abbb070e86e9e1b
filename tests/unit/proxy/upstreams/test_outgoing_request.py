import pytest

from config.routes.route import Route
from foundation.errors import UpstreamError
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream, request_head

UPSTREAM = Upstream.build(Route.model_validate({"from": "https://app.example.com", "to": "http://u"}))
HOST = (b"host", b"u")


@pytest.mark.parametrize(
    ("keys", "framing"),
    [
        ({}, b""),
        ({"content_length": 0}, b"content-length: 0\r\n"),
        ({"has_body": True, "content_length": 5}, b"content-length: 5\r\n"),
        ({"has_body": True}, b"transfer-encoding: chunked\r\n"),
    ],
)
def test_serializes_head_with_one_framing(keys, framing):
    request = OutgoingRequest(UPSTREAM, "PUT", b"/a?b", [HOST, (b"x-A", b"\xe9")], **keys)
    assert request_head(request) == b"PUT /a?b HTTP/1.1\r\nhost: u\r\nx-A: \xe9\r\n" + framing + b"\r\n"


@pytest.mark.parametrize(
    ("target", "headers", "method"),
    [
        (b"/a\r\nx: y", (), "GET"),
        (b"/a b", (), "GET"),
        (b"/a\nb", (), "GET"),
        (b"/a", [(b"x", b"1\r\ny: 2")], "GET"),
        (b"/a", [(b"x", b"1\ny: 2")], "GET"),
        (b"/a", [(b"x", b"1\ry: 2")], "GET"),
        (b"/a", [(b"x", b"1\0")], "GET"),
        (b"/a", [(b"x\r\ny", b"1")], "GET"),
        (b"/a", (), "GET / HTTP/1.1\r\nx:"),
        (b"/a", (), "GET /x"),
    ],
)
def test_refuses_request_splitting(target, headers, method):
    with pytest.raises(UpstreamError):
        request_head(OutgoingRequest(UPSTREAM, method, target, [HOST, *headers]))
