"""An offer of SPDY/3.1 asks for that alone, has no body, and is made to the upstream as it was made to us."""

import pytest

from proxy.upgrades.handshake import HandshakeRefused
from proxy.upgrades.spdy import is_offered, offer

OFFER = [(b"upgrade", b"SPDY/3.1"), (b"connection", b"Upgrade")]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"upgrade", b"SPDY/3.1")], True),
        ([(b"upgrade", b"spdy/3.1")], True),
        ([(b"upgrade", b"SPDY/3")], False),
        ([(b"upgrade", b"SPDY/3.1, websocket")], False),
        ([(b"upgrade", b"SPDY/3.1"), (b"upgrade", b"websocket")], False),
        ([], False),
    ],
)
def test_what_offers_spdy_alone(headers, expected):
    assert is_offered(headers) is expected


def test_the_upstream_is_asked_for_the_same():
    assert offer("POST", [*OFFER, (b"content-length", b"0")]).for_upstream([(b"host", b"u")])[-2:] == [
        (b"upgrade", b"SPDY/3.1"),
        (b"connection", b"Upgrade"),
    ]


@pytest.mark.parametrize(
    ("method", "more"), [("PUT", ()), ("POST", [(b"content-length", b"1")]), ("POST", [(b"transfer-encoding", b"chunked")])]
)
def test_spdy_begins_without_a_body(method, more):
    with pytest.raises(HandshakeRefused):
        offer(method, [*OFFER, *more])
