"""Websocket handshakes, and the responses to them (RFC 6455 4).  (Class B7)"""

import pytest

from foundation.errors import UpstreamError
from proxy.upgrades import HandshakeRefused
from proxy.websocket.handshake import Handshake, accept_key, parse_handshake
from tests.support.websockets import ACCEPT, KEY

OWN = "https://app.example.com"
VALID = (
    (b"connection", b"Upgrade"),
    (b"upgrade", b"websocket"),
    (b"sec-websocket-version", b"13"),
    (b"sec-websocket-key", KEY),
)
ANSWER = ((b"Upgrade", b"websocket"), (b"Connection", b"Upgrade"), (b"Sec-WebSocket-Accept", ACCEPT))


def offer(*more: tuple[bytes, bytes], without: bytes = b"", method: str = "GET", origins: tuple[str, ...] = ()) -> Handshake:
    return parse_handshake(method, [*(pair for pair in VALID if pair[0] != without), *more], OWN, origins)


def test_the_accept_key_is_that_of_the_rfc():
    assert accept_key(KEY) == ACCEPT


@pytest.mark.parametrize(
    ("without", "more", "status"),
    [
        (b"sec-websocket-version", (), 426),
        (b"sec-websocket-version", ((b"sec-websocket-version", b"8"),), 426),
        (b"sec-websocket-version", ((b"sec-websocket-version", b"99"),), 426),
        (b"", ((b"sec-websocket-version", b"13"),), 426),
        (b"sec-websocket-key", (), 400),
        (b"sec-websocket-key", ((b"sec-websocket-key", b"c2hvcnQ="),), 400),
        (b"sec-websocket-key", ((b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ"),), 400),
        (b"sec-websocket-key", ((b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZR=="),), 400),
        (b"", ((b"sec-websocket-key", KEY),), 400),
        (b"upgrade", ((b"upgrade", b"websocket, h2c"),), 400),
        (b"", ((b"upgrade", b"h2c"),), 400),
        (b"", ((b"content-length", b"5"),), 400),
        (b"", ((b"transfer-encoding", b"chunked"),), 400),
        (b"", ((b"origin", b"https://evil.example"),), 403),
        (b"", ((b"origin", b"https://app.example.com:8443"),), 403),
        (b"", ((b"origin", b"http://app.example.com"),), 403),
        (b"", ((b"origin", b"https://app.example.com.evil.example"),), 403),
        (b"", ((b"origin", b"null"),), 403),
        (b"", ((b"origin", b"https://app.example.com"), (b"origin", b"https://evil.example")), 403),
    ],
)
def test_a_handshake_that_is_none_is_refused(without: bytes, more: tuple[tuple[bytes, bytes], ...], status: int):
    with pytest.raises(HandshakeRefused) as refused:
        offer(*more, without=without)
    assert refused.value.status == status


def test_unsupported_version_is_answered_with_the_supported_one():
    with pytest.raises(HandshakeRefused) as refused:
        offer(without=b"sec-websocket-version")
    assert (b"sec-websocket-version", b"13") in refused.value.headers


def test_only_get_opens_a_websocket():
    with pytest.raises(HandshakeRefused):
        offer(method="POST")


@pytest.mark.parametrize("origin", [b"https://app.example.com", b"HTTPS://App.Example.com", b"https://other.example:8443"])
def test_pages_of_the_host_and_of_listed_origins_may(origin: bytes):
    assert offer((b"origin", origin), origins=("https://other.example:8443",)).key == KEY


def test_upstream_receives_the_client_handshake_unchanged():
    headers = ((b"sec-websocket-protocol", b"chat, superchat"), (b"sec-websocket-extensions", b'x;a="1, 2", permessage-deflate'))
    sent = offer(*headers).for_upstream([(b"host", b"upstream"), (b"sec-websocket-key", b"route says so"), (b"x-own", b"1")])
    assert sent[:4] == [(b"host", b"upstream"), (b"x-own", b"1"), (b"upgrade", b"websocket"), (b"connection", b"Upgrade")]
    assert sorted(sent[4:]) == sorted([*VALID[2:], *headers])


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER[1:],
        ANSWER[:1] + ANSWER[2:],
        ANSWER[:2],
        (*ANSWER[:2], (b"Sec-WebSocket-Accept", b"AAAAAAAAAAAAAAAAAAAAAAAAAAA=")),
        (*ANSWER, (b"Sec-WebSocket-Accept", ACCEPT)),
        (*ANSWER, (b"Upgrade", b"h2c")),
        (*ANSWER, (b"Sec-WebSocket-Protocol", b"admin")),
        (*ANSWER, (b"Sec-WebSocket-Protocol", b"chat, superchat")),
        (*ANSWER, (b"Sec-WebSocket-Protocol", b"chat"), (b"Sec-WebSocket-Protocol", b"chat")),
        (*ANSWER, (b"Sec-WebSocket-Extensions", b"x-other")),
    ],
)
def test_a_101_that_does_not_answer_the_handshake_is_no_101(answer: tuple[tuple[bytes, bytes], ...]):
    offered = offer((b"sec-websocket-protocol", b"chat, superchat"), (b"sec-websocket-extensions", b"permessage-deflate; x=1"))
    with pytest.raises(UpstreamError):
        offered.validate_response(answer)


def test_offered_provider_may_be_chosen():
    chosen = ((b"Sec-WebSocket-Protocol", b"chat"), (b"Sec-WebSocket-Extensions", b"permessage-deflate; y=2"))
    offered = offer((b"sec-websocket-protocol", b"chat, superchat"), (b"sec-websocket-extensions", b"permessage-deflate; x=1"))
    assert dict(offered.validate_response((*ANSWER, *chosen))) == {
        b"sec-websocket-accept": ACCEPT,
        b"sec-websocket-protocol": b"chat",
        b"sec-websocket-extensions": b"permessage-deflate; y=2",
    }
