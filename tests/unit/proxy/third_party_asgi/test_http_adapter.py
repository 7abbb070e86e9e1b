"""HTTP under a third-party ASGI server: requests and responses are validated."""

from typing import Any

import pytest

from proxy.forwarding.http_forwarding import ABORT_MESSAGE
from proxy.third_party_asgi.http_adapter import serve_http
from tests.unit.proxy.third_party_asgi.test_strict_scope import HOST, HTTP

Message = dict[str, Any]
START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"x", b"1")]}
END: Message = {"type": "http.response.body", "body": b"hello"}


class Exchange:
    """One request. `sent` are the messages to the server, `scope` is the application's, `ended` the completion arguments."""

    def __init__(self, *response: Message, body: tuple[Message, ...] = ({"type": "http.request", "body": b""},), **changes: Any):
        self.response, self.changes = response, changes
        self.body = list(body)
        self.sent: list[Message] = []
        self.scope: Message | None = None
        self.messages = b""
        self.on_request_complete: tuple[Any, ...] | None = None

    async def receive(self) -> Message:
        return self.body.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def application(self, scope: Message, receive: Any, send: Any) -> None:
        self.scope = scope
        while (message := await receive()).get("more_body"):
            self.messages += message["body"]
        self.messages += message["body"]
        for text in self.response:
            await send(text)

    async def run(self) -> "Exchange":
        def on_request_complete(*facts: Any) -> None:
            assert self.on_request_complete is None, "counted once"
            self.on_request_complete = facts

        await serve_http(self.application, {**HTTP, **self.changes}, self.receive, self.send, on_request_complete)
        return self


async def test_request_is_answered_and_counted() -> None:
    exchange = await Exchange(START, END).run()
    assert exchange.sent == [START, END]
    host, method, status, seconds, received, sent = exchange.on_request_complete or ()
    assert (host, method, status, received, sent) == (b"app.example.com", b"GET", 200, 0, 5)
    assert seconds >= 0


async def test_a_scope_in_doubt_never_reaches_the_application() -> None:
    exchange = await Exchange(START, END, raw_path=None).run()
    assert exchange.scope is None
    assert [message.get("status") for message in exchange.sent] == [400, None]
    assert (exchange.on_request_complete or ())[:3] == (b"", b"", 400)


@pytest.mark.parametrize("bad", [(b"x", b"1\r\nset-cookie: _gate=forged"), (b"x\n", b"1"), (b"content-length", b"-1")])
async def test_refuses_response_with_invalid_headers(bad: tuple[bytes, bytes]) -> None:
    exchange = Exchange({**START, "headers": [bad]})
    with pytest.raises(ValueError, match=r"response header|Content-Length"):
        await exchange.run()
    assert exchange.sent == []


async def test_aborted_response_does_not_look_complete() -> None:
    exchange = await Exchange(START, {**END, "more_body": True}, ABORT_MESSAGE, END).run()
    assert exchange.sent == [START, {**END, "more_body": True}]


@pytest.mark.parametrize(("version", "stored"), [("1.1", [b"connection", b"x"]), ("2", [b"x"])])
async def test_headers_of_a_connection_are_the_servers(version: str, stored: list[bytes]) -> None:
    headers = [(b"connection", b"close"), (b"transfer-encoding", b"chunked"), (b"upgrade", b"h2c"), (b"x", b"1")]
    exchange = await Exchange({**START, "headers": headers}, END, http_version=version).run()
    assert [name for name, _ in exchange.sent[0]["headers"]] == stored


@pytest.mark.parametrize("parts", [[b"a", b"", b"bc"], [b"abc"], [b""]])
async def test_a_body_of_http_2_needs_no_length(parts: list[bytes]) -> None:
    body = tuple({"type": "http.request", "body": part, "more_body": number < len(parts) - 1} for number, part in enumerate(parts))
    exchange = await Exchange(START, END, body=body, http_version="2").run()
    assert exchange.messages == b"".join(parts)
    assert exchange.scope is not None
    has_body = any(parts) or len(parts) > 1
    assert exchange.scope["headers"] == [HOST, *([(b"transfer-encoding", b"chunked")] if has_body else [])]


async def test_client_disconnect_is_counted() -> None:
    assert (await Exchange().run()).on_request_complete[2] == 499  # type: ignore[index]
