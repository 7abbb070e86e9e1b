"""Each way in which a connection fails has words of its own, whichever library made the connection."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import httpx
import pytest

from foundation.connection_errors import ConnectionFault, connection_fault
from tests.support.certs import certificate_files
from tests.support.children import free_port

Fetch = Callable[[str, ssl.SSLContext, float], Awaitable[object]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _by_httpx(url: str, context: ssl.SSLContext, timeout: float) -> None:
    async with httpx.AsyncClient(verify=context, timeout=timeout, trust_env=False) as client:
        await client.get(url)


async def _by_aiohttp(url: str, context: ssl.SSLContext, timeout: float) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session, session.get(url, ssl=context):
        pass


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)


async def _alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n")


class Stage:
    """Servers on loopback, each wrong in its own way."""

    def __init__(self, directory: Path, stack: AsyncExitStack):
        self._stack = stack
        self.files = certificate_files(directory, "localhost")
        other = directory / "other"
        other.mkdir()
        self.other = certificate_files(other, "other.example.com")

    async def port(self, serve: Serve, tls: ssl.SSLContext | None = None) -> int:
        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
            except OSError:
                pass
            finally:
                writer.close()

        server = await self._stack.enter_async_context(await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls))
        return server.sockets[0].getsockname()[1]

    def tls(self, *, is_other: bool = False, wants_certificate: bool = False) -> ssl.SSLContext:
        files = self.other if is_other else self.files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.authority))
        context.load_cert_chain(files.certificate, files.key)
        context.verify_mode = ssl.CERT_REQUIRED if wants_certificate else ssl.CERT_NONE
        return context


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(tmp_path, stack)


async def _refused(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"http://127.0.0.1:{free_port()}/", ConnectionFault.REFUSED


async def _refused_by_both_families(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"https://localhost:{free_port()}/", ConnectionFault.REFUSED


async def _unresolved(stage: Stage) -> tuple[str, ConnectionFault]:
    return "http://nobody.invalid/", ConnectionFault.UNRESOLVED


async def _tls_to_plain(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"https://localhost:{await stage.port(_plain)}/", ConnectionFault.NO_TLS


async def _plain_to_tls_that_says_so(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"http://localhost:{await stage.port(_alert)}/", ConnectionFault.ONLY_TLS


async def _plain_to_tls_that_closes(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"http://localhost:{await stage.port(_plain, stage.tls())}/", ConnectionFault.BROKE_OFF


async def _untrusted(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"https://localhost:{await stage.port(_plain, stage.tls(is_other=True))}/", ConnectionFault.UNTRUSTED


async def _other_name(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"https://127.0.0.1:{await stage.port(_plain, stage.tls())}/", ConnectionFault.OTHER_NAME


async def _too_slow(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"http://localhost:{await stage.port(_silent)}/", ConnectionFault.TIMED_OUT


async def _handshake_too_slow(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"https://localhost:{await stage.port(_silent)}/", ConnectionFault.TIMED_OUT


async def _closed(stage: Stage) -> tuple[str, ConnectionFault]:
    return f"http://localhost:{await stage.port(_mute)}/", ConnectionFault.BROKE_OFF


WAYS = (
    _refused, _refused_by_both_families, _unresolved, _tls_to_plain, _plain_to_tls_that_says_so, _plain_to_tls_that_closes, _untrusted,
    _other_name, _too_slow, _handshake_too_slow, _closed,
)  # fmt: skip


@pytest.mark.parametrize("fetch", [_by_httpx, _by_aiohttp])
@pytest.mark.parametrize("way", WAYS)
async def test_each_way_to_fail_is_told_apart(
    stage: Stage, way: Callable[[Stage], Awaitable[tuple[str, ConnectionFault]]], fetch: Fetch
) -> None:
    url, expected = await way(stage)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has its own
        await fetch(url, stage.files.client_context(), 0.5 if expected is ConnectionFault.TIMED_OUT else 20)
    assert connection_fault(caught.value) is expected


def _verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


def _tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (_verification(10), ConnectionFault.EXPIRED),
        (_verification(9), ConnectionFault.NOT_YET_VALID),
        (_verification(64), ConnectionFault.OTHER_NAME),
        (_verification(20), ConnectionFault.UNTRUSTED),
        (_tls_error("RECORD_LAYER_FAILURE"), ConnectionFault.NO_TLS),
        (_tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), ConnectionFault.WANTS_CERTIFICATE),
        (_tls_error("UNSUPPORTED_PROTOCOL"), ConnectionFault.NO_HANDSHAKE),
        (OSError(errno.EHOSTUNREACH, "No route to host"), ConnectionFault.UNREACHABLE),
        (OSError(errno.EMFILE, "Too many open files"), ConnectionFault.NO_DESCRIPTORS),
        (ExceptionGroup("several addresses", [TimeoutError(), ConnectionRefusedError()]), ConnectionFault.REFUSED),
        (socket.gaierror(-2, "Name or service not known"), ConnectionFault.UNRESOLVED),
        (ValueError("something else"), ConnectionFault.UNKNOWN),
    ],
)
def test_what_loopback_does_not_do_is_told_apart_too(error: Exception, trouble: ConnectionFault) -> None:
    assert connection_fault(error) is trouble


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert connection_fault(first) is ConnectionFault.UNKNOWN


def test_no_two_have_the_same_words() -> None:
    assert (
        len({trouble.words for trouble in ConnectionFault}) == len({trouble.advice for trouble in ConnectionFault}) == len(ConnectionFault)
    )


@pytest.mark.parametrize("fault", ConnectionFault)
def test_each_fault_is_in_the_troubleshooting_table(fault: ConnectionFault) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "upstreams.md").read_text()
    assert f"`{fault.words}`" in page
