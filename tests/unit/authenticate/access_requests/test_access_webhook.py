"""Access webhook: delivery, signature, retries and queue limits."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.access_requests import access_webhook
from authenticate.access_requests.access_webhook import MAX_QUEUE, AccessEvent, AccessWebhook, escape_chat_markup, sign
from tests.support.closing import stop_accepting
from tests.support.options import make_options

SECRET = "a" * 40
EVENT = AccessEvent("requested", "ann", "oidc/1", "wages", "the year's end", "ann", "ann asks for wages", 7.0)


class Chat:
    """`answers` are given one after the other, then 200; `messages` are what came."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.messages: list[tuple[bytes, bytes]] = []
        self.received = asyncio.Event()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook/secret-part"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        self.messages.append((head, await reader.readexactly(length)))
        answer = self.answers.pop(0) if self.answers else b"200 OK"
        writer.write(b"HTTP/1.1 " + answer + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        if not self.answers:
            self.received.set()

    async def stop(self) -> None:
        await stop_accepting(self._server)
        await self._server.wait_closed()


@pytest.fixture
async def chat(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chat]:
    monkeypatch.setattr(access_webhook, "INITIAL_BACKOFF", 0.001)
    monkeypatch.setattr(access_webhook, "MAX_BACKOFF", 0.002)
    chat = Chat()
    await chat.start()
    yield chat
    await chat.stop()


def hook(directory: Path, url: str, **settings: Any) -> AccessWebhook:
    options = make_options(directory, **{"access_webhook_url": url, "access_webhook_secret": SECRET, **settings})
    return AccessWebhook(options, "https://auth.example.com/.gate/access", lambda: 1_800_000_000.0)


async def test_event_is_sent_and_signed(chat: Chat, tmp_path: Path) -> None:
    webhook = hook(tmp_path, chat.url)
    webhook.start()
    webhook.enqueue(replace(EVENT, text="ann asks for <!channel>"))
    await chat.received.wait()
    await webhook.stop()
    ((head, body),) = chat.messages
    document = json.loads(body)
    assert document["text"] == "ann asks for &lt;!channel&gt; https://auth.example.com/.gate/access"
    assert (document["event"], document["user_id"], document["expires_at"]) == ("requested", "oidc/1", 7.0)
    expected = hmac.new(SECRET.encode(), b"1800000000." + body, hashlib.sha256).hexdigest()
    assert f"x-gate-signature: t=1800000000,v1={expected}".encode() in head.lower()
    assert sign(SECRET.encode(), body, 1_800_000_000).endswith(expected)


@pytest.mark.parametrize("answers", [[b"500 No"], [b"503 No\r\nRetry-After: 1"], [b"429 No", b"502 No"], [b"408 No"]])
async def test_transient_failure_is_retried(chat: Chat, tmp_path: Path, answers: list[bytes]) -> None:
    chat.answers = [*answers, b"200 OK"]
    webhook = hook(tmp_path, chat.url)
    webhook.start()
    webhook.enqueue(EVENT)
    await chat.received.wait()
    await webhook.stop()
    assert len(chat.messages) == len(answers) + 1


@pytest.mark.parametrize("answer", [b"302 Found\r\nLocation: http://127.0.0.1:1/", b"404 No", b"401 No"])
async def test_final_responses_are_not_retried(chat: Chat, tmp_path: Path, answer: bytes) -> None:
    chat.answers = [answer, b"200 OK"]
    webhook = hook(tmp_path, chat.url)
    webhook.start()
    with capture_logs() as logs:
        webhook.enqueue(EVENT)
        webhook.enqueue(replace(EVENT, event="granted"))
        await chat.received.wait()
        await webhook.stop()
    assert [json.loads(body)["event"] for _, body in chat.messages] == ["requested", "granted"]
    (line,) = [each for each in logs if each["event"] == "access webhook delivery failed"]
    assert line["reason"] == f"status {answer.split()[0].decode()}"
    assert "secret-part" not in str(logs)
    assert SECRET not in str(logs)


async def test_unreachable_webhook_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_webhook, "INITIAL_BACKOFF", 0.001)
    monkeypatch.setattr(access_webhook, "MAX_BACKOFF", 0.002)
    webhook = hook(tmp_path, "http://127.0.0.1:1/x")
    with capture_logs() as logs:
        for _ in range(MAX_QUEUE + 3):
            webhook.enqueue(EVENT)
        webhook.start()
        while not any(each["event"] == "access webhook delivery failed" for each in logs):
            await asyncio.sleep(0.001)
        await webhook.stop()
    assert sum(each["event"] == "access webhook queue full, event dropped" for each in logs) == 3
    assert any(each["event"] == "access webhook stopped with undelivered events" for each in logs)


async def test_flood_of_one_user_hides_no_break_glass_and_no_other_events(chat: Chat, tmp_path: Path) -> None:
    webhook = hook(tmp_path, chat.url)
    webhook.enqueue(replace(EVENT, event="break_glass_used", user_id="oidc/mallory"))
    webhook.enqueue(replace(EVENT, user_id="oidc/ann"))
    with capture_logs() as logs:
        for number in range(MAX_QUEUE + 50):
            webhook.enqueue(replace(EVENT, user_id="oidc/mallory", expires_at=float(number)))
    assert {(each["webhook_event"], each["user_id"]) for each in logs} == {("requested", "oidc/mallory")}
    chat.answers = [b"200 OK"] * MAX_QUEUE
    webhook.start()
    await chat.received.wait()
    await webhook.stop()
    received = [json.loads(body) for _, body in chat.messages]
    assert [(each["event"], each["user_id"]) for each in received[:2]] == [("break_glass_used", "oidc/mallory"), ("requested", "oidc/ann")]
    assert [each["expires_at"] for each in received[2:]] == [float(number) for number in range(52, MAX_QUEUE + 50)]


async def test_of_nothing_but_broken_glasses_the_oldest_goes(tmp_path: Path) -> None:
    webhook = hook(tmp_path, "http://127.0.0.1:1/x")
    with capture_logs() as logs:
        for number in range(MAX_QUEUE + 1):
            webhook.enqueue(replace(EVENT, event=access_webhook.BREAK_GLASS_USED, expires_at=float(number)))
    assert [each["webhook_event"] for each in logs] == ["break_glass_used"]


async def test_without_url_nothing_is_sent(tmp_path: Path) -> None:
    webhook = AccessWebhook(make_options(tmp_path), "https://auth.example.com/.gate/access", lambda: 0.0)
    webhook.start()
    webhook.enqueue(EVENT)
    await webhook.stop()


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<!channel> & <https://evil.example|here>", "&lt;!channel&gt; &amp; &lt;https: evil.example here&gt;"),
        ("[here](https://evil.example)", "(here)(https: evil.example)"),
        ("*bold* _it_ `code` @everyone #room", " bold   it   code  (at)everyone  room"),
        ("a\u202eb\x1bc", "a\ufffdb\ufffdc"),
    ],
)
def test_escapes_chat_markup(text: str, escaped: str) -> None:
    assert escape_chat_markup(text) == escaped
