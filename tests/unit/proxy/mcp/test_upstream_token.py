"""Responses of third-party servers: their challenges do not reach clients."""

from typing import Any

import pytest

from authorize.upstream.upstream_oauth_tokens import token_hash
from proxy.mcp.upstream_token import TokenRejected, TokenResponseFilter, sent_token_hash
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from tests.unit.authorize.builders import make_route

CHALLENGE = (b"www-authenticate", b'Bearer resource_metadata="https://mcp.example.org/x"')


def outgoing_with(headers: list[tuple[bytes, bytes]]) -> OutgoingRequest:
    return OutgoingRequest(Upstream.build(make_route(allow_any_authenticated_user=True)), "POST", b"/mcp", headers)


class Sent(list[dict[str, Any]]):
    async def __call__(self, message: dict[str, Any]) -> None:
        self.append(message)


async def test_rejection_is_raised_before_anything_is_sent() -> None:
    sent = Sent()
    with pytest.raises(TokenRejected):
        await TokenResponseFilter(sent).send({"type": "http.response.start", "status": 401, "headers": [CHALLENGE]})
    assert sent == []


@pytest.mark.parametrize("status", [200, 403, 407, 500])
async def test_other_responses_pass_without_a_challenge(status: int) -> None:
    sent = Sent()
    filtered = TokenResponseFilter(sent)
    await filtered.send({"type": "http.response.start", "status": status, "headers": [CHALLENGE, (b"x-a", b"1"), CHALLENGE]})
    await filtered.send({"type": "http.response.body", "body": b"x"})
    assert sent == [
        {"type": "http.response.start", "status": status, "headers": [(b"x-a", b"1")]},
        {"type": "http.response.body", "body": b"x"},
    ]


def test_hash_names_the_token_that_was_sent() -> None:
    assert sent_token_hash(outgoing_with([(b"host", b"x"), (b"authorization", b"Bearer a")])) == token_hash(b"Bearer a")
    assert sent_token_hash(outgoing_with([])) == token_hash(b"")
