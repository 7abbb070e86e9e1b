"""A person is told what to do, never the cause."""

import pytest

from gateproject.errors import UpstreamError, UpstreamTimeout
from proxy.forwarding.handshake import HandshakeRefused
from proxy.troubles import TooManyTunnels, explain_trouble
from tests.support.asgi import Answer, incoming_from


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UpstreamError("db.internal:5432 refused"), 502, "can't be reached"),
        (UpstreamTimeout("db.internal:5432"), 504, "did not answer in time"),
        (TooManyTunnels("1024 tunnels are open already"), 429, "1024 tunnels"),
        (HandshakeRefused(501, "this server can't hand a connection over"), 501, "can't hand a connection over"),
    ],
)
async def test_each_has_its_words_and_its_status(error, status, said):
    answer = Answer()
    await explain_trouble(incoming_from("https://app.example.com/"), error, answer.send)
    assert answer.status == status
    assert said in answer.body.decode()
    assert "db.internal" not in answer.body.decode()
