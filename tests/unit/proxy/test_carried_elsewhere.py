"""What another proxy may not carry, although the decision allows: our own pages, and websockets where there are none."""

import pytest

from gateproject.errors import BadRequest
from proxy.carried_elsewhere import is_websocket, require_no_token, require_not_ours, require_websocket_may_open
from tests.unit.authorize.builders import make_route

OWN = "https://app.example.com"
HANDSHAKE = [(b"sec-websocket-key", b"x"), (b"accept", b"*/*")]


@pytest.mark.parametrize("path", ["/.gate/", "/.gate/callback/", "/.well-known/gate/jwks.json"])
def test_our_own_pages_are_for_no_application(path):
    with pytest.raises(BadRequest, match="instead of asking"):
        require_not_ours(path)


def test_every_other_path_may_be_the_application_s():
    for path in ("/", "/.gate", "/x/.gate/", "/.gatekeeper/"):
        require_not_ours(path)


def test_a_websocket_is_known_by_what_every_browser_sends():
    assert is_websocket(HANDSHAKE)
    assert is_websocket([(b"upgrade", b"h2c, WebSocket")])
    assert not is_websocket([(b"upgrade", b"h2c"), (b"connection", b"upgrade")])


def test_a_websocket_needs_a_route_that_carries_them():
    with pytest.raises(BadRequest, match="carries no websockets"):
        require_websocket_may_open(HANDSHAKE, OWN, make_route())


@pytest.mark.parametrize(
    ("origins", "is_allowed"),
    [((), True), ((OWN,), True), (("https://friend.example",), True), (("https://evil.example",), False), ((OWN, "null"), False)],
)
def test_a_websocket_opens_for_pages_of_known_origins(origins, is_allowed):
    route = make_route(allow_websockets=True, websocket_origins=["https://friend.example"])
    headers = [*HANDSHAKE, *((b"origin", origin.encode()) for origin in origins)]
    if is_allowed:
        require_websocket_may_open(headers, OWN, route)
    else:
        with pytest.raises(BadRequest, match="another origin"):
            require_websocket_may_open(headers, OWN, route)


def test_a_token_in_a_query_would_reach_the_application():
    for query in ("gate_session=x", "a=b&gate%5Fsession=x"):
        with pytest.raises(BadRequest, match="carries a token"):
            require_no_token(query)
    require_no_token("a=b&session=x")
