"""Only the browser that was started can sign in, once, and only with the response of the server that was asked."""

import asyncio
from urllib.parse import urlsplit

import pytest

from gateproject.tunnel import browser_sign_in
from gateproject.tunnel.browser_sign_in import sign_in
from gateproject.tunnel.oauth_client import discover
from gateproject.tunnel.tls_connection import TunnelError
from tests.support.eventually import PATIENCE
from tests.support.fake_gate import TUNNEL, FakeGate


@pytest.fixture
def gate(tmp_path, monkeypatch):
    monkeypatch.setattr(browser_sign_in, "MIN_SIGN_IN_SECONDS", 0.0)
    with FakeGate(tmp_path) as running:
        yield running


async def browse(url: str, method: str = "GET", start: str = "") -> tuple[str, str]:
    """Return the status line without version, and Location."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection("127.0.0.1", parts.port)
    target = start or (f"{parts.path}?{parts.query}" if parts.query else parts.path)
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1"))
    status, *lines = (await reader.read()).decode().partition("\r\n\r\n")[0].split("\r\n")
    writer.close()
    assert "Cache-Control: no-store" in lines
    assert "Referrer-Policy: no-referrer" in lines
    return status.partition(" ")[2], next((line.partition(": ")[2] for line in lines if line.startswith("Location: ")), "")


class Stage:
    """Sign-in that waits for the browser, at `start`."""

    def __init__(self, gate: FakeGate):
        self.gate = gate
        self._opened: asyncio.Queue[str] = asyncio.Queue()

    async def __aenter__(self):
        server = await discover(self.gate.gate, TUNNEL)
        self.signing_in = asyncio.ensure_future(sign_in(server, self._opened.put))
        async with asyncio.timeout(PATIENCE):
            self.start = await self._opened.get()
        return self

    async def __aexit__(self, *_):
        self.signing_in.cancel()

    async def result(self):
        async with asyncio.timeout(PATIENCE):
            return await self.signing_in


async def test_browser_is_redirected_and_code_redeemed(gate):
    async with Stage(gate) as stage:
        assert urlsplit(stage.start).hostname == "127.0.0.1"
        status, location = await browse(stage.start)
        assert status == "302 Found"
        assert location.startswith(f"{gate.issuer}/authorize?a=b&")
        assert await browse(gate.authorize(location)) == ("200 OK", "")
        stored = await stage.result()
        assert (stored.issuer, stored.access_token, stored.refresh_token) == (gate.issuer, "access-1", "refresh-1")
        with pytest.raises(ConnectionRefusedError):
            await browse(stage.start)


async def test_arguments_of_the_browser_have_no_state_and_no_challenge(gate):
    async with Stage(gate) as first, Stage(gate) as second:
        assert urlsplit(first.start).path != urlsplit(second.start).path
        _, location = await browse(first.start)
        for name in ("state", "code_challenge"):
            value = location.partition(f"{name}=")[2].partition("&")[0]
            assert len(value) >= 32
            assert value not in first.start


async def test_second_use_of_the_start_url_ends_the_sign_in(gate):
    async with Stage(gate) as stage:
        _, location = await browse(stage.start)
        assert (await browse(stage.start))[0] == "410 Gone"
        with pytest.raises(TunnelError, match="opened twice"):
            await stage.result()
        assert gate.count("authorization_code") == 0
        assert location


async def test_second_use_is_noticed_after_a_fast_sign_in(gate, monkeypatch):
    """Another user of the machine was faster than the browser of this one."""
    monkeypatch.setattr(browser_sign_in, "MIN_SIGN_IN_SECONDS", PATIENCE)
    async with Stage(gate) as stage:
        _, location = await browse(stage.start)
        back = gate.authorize(location)
        assert [(await browse(back))[0] for _ in range(2)] == ["200 OK"] * 2
        assert (await browse(stage.start))[0] == "410 Gone"
        with pytest.raises(TunnelError, match="opened twice"):
            await stage.result()
        assert gate.count("authorization_code") == 0


async def test_requests_of_others_change_nothing(gate):
    async with Stage(gate) as stage:
        _, location = await browse(stage.start)
        back = gate.authorize(location)
        other = back.replace("state=", "state=x")
        others = [
            (other, "GET", ""),
            (back.partition("?")[0], "GET", ""),
            (f"{back}&code=evil", "GET", ""),
            (f"{other}&error=access_denied", "GET", ""),
            (back.replace("/callback", "/"), "GET", ""),
            (back, "POST", ""),
            (stage.start, "POST", ""),
            (f"{stage.start}x", "GET", ""),
            (stage.start, "HEAD", ""),
            (back, "GET", "//[?\xff"),
        ]
        for url, method, target in others:
            assert await browse(url, method, target) == ("404 Not Found", "")
        assert not stage.signing_in.done()
        assert (await browse(back))[0] == "200 OK"
        assert (await stage.result()).access_token == "access-1"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"iss": "https://evil.localhost"}, "of another authorization server"),
        ({"iss": ""}, "of another authorization server"),
        ({"error": "access_denied"}, "access was denied"),
        ({"error": "server_error"}, "sign-in failed: server_error"),
        ({"error": "server_error", "error_description": "Try\x1b later"}, "sign-in failed: Try later"),
        ({"error": "access_denied", "iss": "https://evil.localhost"}, "of another authorization server"),
        ({"code": ""}, "there is no code"),
        ({"code": "a\nb"}, "there is no code"),
    ],
)
async def test_other_responses_end_the_sign_in(gate, changed: dict[str, str], message: str):
    async with Stage(gate) as stage:
        _, location = await browse(stage.start)
        assert (await browse(gate.authorize(location, **changed)))[0] == "400 Bad Request"
        with pytest.raises(TunnelError, match=message):
            await stage.result()
        assert gate.count("authorization_code") == 0


async def test_missing_browser_is_reported_at_once(gate):
    async def fail(url: str) -> None:
        raise TunnelError("no browser")

    with pytest.raises(TunnelError, match="no browser"):
        await sign_in(await discover(gate.gate, TUNNEL), fail)


async def test_sign_in_is_not_awaited_for_ever(gate, monkeypatch):
    monkeypatch.setattr(browser_sign_in, "SIGN_IN_SECONDS", 0.01)
    async with Stage(gate) as stage:
        with pytest.raises(TunnelError, match="no sign-in within"):
            await stage.result()


async def test_idle_connection_of_the_browser_does_not_delay_the_end(gate):
    async with Stage(gate) as stage:
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(stage.start).port)
        _, location = await browse(stage.start)
        await browse(gate.authorize(location))
        async with asyncio.timeout(browser_sign_in._REQUEST_SECONDS / 2):
            await stage.signing_in
        writer.close()
