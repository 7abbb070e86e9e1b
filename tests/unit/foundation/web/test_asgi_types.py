import pytest

from foundation.web.asgi_types import respond
from tests.support.asgi import Answer


@pytest.mark.parametrize(("head_only", "body"), [(False, b"seven b"), (True, b"")])
async def test_a_response_has_its_length_and_to_head_no_body(head_only: bool, body: bytes) -> None:
    answer = Answer()
    await respond(answer.send, 404, ((b"x", b"1"),), b"seven b", head_only=head_only)
    assert (answer.status, answer.headers, answer.body, answer.ended) == (404, [(b"x", b"1"), (b"content-length", b"7")], body, True)
