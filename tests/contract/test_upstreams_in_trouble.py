"""Each way in which an upstream fails has its own message for the operator and the same general page for the client, on both planes."""

import asyncio
import contextlib
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

from examples.demo.certificates import Authority
from foundation.connection_errors import ConnectFailure
from tests.support.certs import PERMITTED, certificate_files
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.raw_http import RawClient

APP = "app.localhost"
NO_ANSWER = "invalid HTTP response"
END = b"Content-Length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Failing:
    """`texts` are alternative parts of the log line: planes see the same from other sides."""

    status: int
    texts: tuple[str, ...]
    status_of_envoy: int | None = None


FAILING = {
    "refuses": Failing(502, (ConnectFailure.REFUSED.message,)),
    "unresolved": Failing(502, (ConnectFailure.UNRESOLVED.message,)),
    "untrusted": Failing(502, (ConnectFailure.UNTRUSTED.message,)),
    "other name": Failing(502, (ConnectFailure.HOSTNAME_MISMATCH.message,)),
    "expired": Failing(502, (ConnectFailure.EXPIRED.message,)),
    "plain on a TLS port": Failing(502, (ConnectFailure.NO_TLS.message,)),
    "TLS on a plain port": Failing(502, (ConnectFailure.TLS_REQUIRED.message, ConnectFailure.CONNECTION_RESET.message, NO_ANSWER)),
    "wants a certificate": Failing(
        502, (ConnectFailure.CLIENT_CERT_REQUIRED.message, ConnectFailure.CONNECTION_RESET.message)
    ),  # Envoy keeps that alert to itself
    "silent": Failing(504, ("timed out",)),
    "resets": Failing(502, (ConnectFailure.CONNECTION_RESET.message,)),
    "closes": Failing(502, (ConnectFailure.CONNECTION_RESET.message,)),
    "no HTTP": Failing(502, (NO_ANSWER,)),
    "status 000": Failing(502, ("status 000", NO_ANSWER)),
    "status 099": Failing(502, ("status 099", NO_ANSWER)),
    "status 600": Failing(502, ("status 600", NO_ANSWER)),
    "status 999": Failing(502, ("status 999", NO_ANSWER)),
    "switches unasked": Failing(502, ("without an upgrade", NO_ANSWER)),
    # Envoy shows gate no interim response, and counts none: the route's time bounds them there.
    "only interim": Failing(502, ("interim responses", "timed out"), 504),
}


def logs(*pieces: bytes, then_waits: bool = True) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if then_waits:
            await reader.read()

    return serve


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


SERVES = {
    "silent": logs(),
    "resets": resets,
    "closes": logs(then_waits=False),
    "no HTTP": logs(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "status 000": logs(b"HTTP/1.1 000 Zero\r\n" + END),
    "status 099": logs(b"HTTP/1.1 099 Low\r\n" + END),
    "status 600": logs(b"HTTP/1.1 600 High\r\n" + END),
    "status 999": logs(b"HTTP/1.1 999 High\r\n" + END),
    "switches unasked": logs(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
    "only interim": logs(*[b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"] * 2000),
    "plain on a TLS port": plain,
}


class Upstreams:
    """One server a way to fail; `to` has their URLs, `keys` what else their routes say."""

    def __init__(self, directory: Path, stack: AsyncExitStack):
        self._directory, self._stack = directory, stack
        self.to = {"refuses": f"http://127.0.0.1:{free_port()}", "unresolved": "http://no-such-upstream.invalid:8000"}
        self.keys: dict[str, dict[str, object]] = {name: {"timeout": "1s"} for name in ("silent", "only interim")}

    async def start(self) -> None:
        trusted = certificate_files(self._directory, "localhost")
        for name, serve in SERVES.items():
            self.to[name] = f"http://127.0.0.1:{await self._port(serve)}"
        self.to["plain on a TLS port"] = self.to["plain on a TLS port"].replace("http:", "https:")
        self.to["TLS on a plain port"] = f"http://127.0.0.1:{await self._port(logs(), trusted.server_context())}"
        of_others = self._directory / "others"
        of_others.mkdir()
        old = datetime.now(UTC) - timedelta(days=400)
        authority = Authority.create("throw-away test authority", permitted=PERMITTED, now=old)
        for name, files in {"untrusted": certificate_files(of_others, "localhost"), "other name": trusted}.items():
            self.to[name] = f"https://127.0.0.1:{await self._port(logs(), files.server_context())}"
            self.keys[name] = {"tls_custom_ca_file": str(trusted.authority), "tls_server_name": "localhost"}
        self.keys["other name"]["tls_server_name"] = "app.example.com"
        demanding = trusted.server_context()
        demanding.load_verify_locations(trusted.authority)
        demanding.verify_mode = ssl.CERT_REQUIRED
        self.to["wants a certificate"] = f"https://127.0.0.1:{self._demanding_port(demanding)}"
        self.keys["wants a certificate"] = self.keys["untrusted"]
        issued, expired = authority.issue("localhost", now=old), of_others / "expired.pem"
        expired.write_bytes(issued.certificate_pem + authority.certificate_pem + issued.key_pem)
        of_the_past = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        of_the_past.load_cert_chain(expired)
        self.to["expired"] = f"https://127.0.0.1:{await self._port(logs(), of_the_past)}"
        (of_others / "old.pem").write_bytes(authority.certificate_pem)
        self.keys["expired"] = {"tls_custom_ca_file": str(of_others / "old.pem"), "tls_server_name": "localhost"}

    def _demanding_port(self, context: ssl.SSLContext) -> int:
        """Not by asyncio's TLS, which (3.11) keeps to itself why it ends a handshake."""
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                tls = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                with contextlib.suppress(OSError), tls:
                    with contextlib.suppress(ssl.SSLError):
                        tls.do_handshake()
                    while os.read(tls.fileno(), 65536):  # who closes before reading resets, and takes the alert back
                        pass

        threading.Thread(target=serve, daemon=True).start()
        self._stack.callback(listener.shutdown, socket.SHUT_RDWR)
        return listener.getsockname()[1]

    async def _port(self, serve: Serve, tls: ssl.SSLContext | None = None) -> int:
        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

        server = await self._stack.enter_async_context(await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls))
        return server.sockets[0].getsockname()[1]


@pytest.fixture
async def upstreams(tmp_path: Path) -> AsyncIterator[Upstreams]:
    async with AsyncExitStack() as stack:
        running = Upstreams(tmp_path, stack)
        await running.start()
        yield running


def get(gate: RunningGate, path: str) -> tuple[int, bytes]:
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP) as client:
        answer = client.send(f"GET {path} HTTP/1.1\r\nHost: {APP}:{gate.port}\r\nAccept: application/json\r\n\r\n".encode()).response()
    return answer.status, answer.body


@pytest.mark.parametrize("plane", ["embedded", "envoy"])
async def test_each_failure_has_its_problem_field(upstreams: Upstreams, provider: DevelopmentProvider, tmp_path: Path, plane: str) -> None:
    all_users = {"allow_public_unauthenticated_access": True, "timeout": "5s"}
    assert {*upstreams.to} == {*FAILING}
    numbers = {name: number for number, name in enumerate(FAILING)}
    builder = GateBuilder(provider.url).setting(data_plane=plane, admin_allowed_users=["alice@example.com"])
    for name, number in numbers.items():
        builder.route(APP, prefix=f"/{number}/", to=upstreams.to[name], **{**all_users, **upstreams.keys.get(name, {})})
    (tmp_path / "gate").mkdir()
    with await asyncio.to_thread(builder.start, tmp_path / "gate") as gate:
        for name, failing in FAILING.items():
            path = f"/{numbers[name]}/x"
            status, body = await asyncio.to_thread(get, gate, path)
            line = gate.wait_for_event("request", lambda entry, path=path: entry["path"] == path)
            expected = failing.status_of_envoy if plane == "envoy" and failing.status_of_envoy else failing.status
            assert status == expected, (name, line)
            if plane == "envoy" and name == "switches unasked":
                assert body == b"", "Envoy's side of it has no end"
            else:
                assert re.search("can't be reached|in time", json.loads(body)["reason"]), name
            assert any(text in line["problem"] for text in failing.texts), (name, line["problem"])
            where = upstreams.to[name].partition("://")[2]
            assert where in line["problem"], (name, line["problem"])
        async with gate.client() as alice:
            page = await sign_in(alice, gate.url("authenticate.localhost", "/.gate/admin/proxy/route/"), "alice")
            for name in ("refuses", "unresolved", "expired"):
                assert f"{upstreams.to[name]}: {FAILING[name].texts[0]}" in unescape(page.text), name
