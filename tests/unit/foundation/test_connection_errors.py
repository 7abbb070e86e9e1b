"""Each kind of connection failure has its message, for each client library."""

import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import httpx
import pytest

from foundation.connection_errors import ConnectFailure, classify_failure
from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.upstream import Exchange, RawUpstream, Script

Fetch = Callable[[str, ssl.SSLContext, float], Awaitable[object]]


async def _by_httpx(url: str, context: ssl.SSLContext, timeout: float) -> None:
    async with httpx.AsyncClient(verify=context, timeout=timeout, trust_env=False) as client:
        await client.get(url)


async def _by_aiohttp(url: str, context: ssl.SSLContext, timeout: float) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session, session.get(url, ssl=context):
        pass


async def _plain(conversation: Exchange) -> None:
    await conversation.read(20)
    await conversation.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await conversation.close()


async def _mute(conversation: Exchange) -> None:
    await conversation.read(20)
    await conversation.close()


async def _alert(conversation: Exchange) -> None:
    await conversation.read(20)
    await conversation.send(b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n")
    await conversation.close()


# URL, server, certificate, and the expected failure.
WAYS: dict[str, tuple[str, Script | None, str | None, ConnectFailure]] = {
    "refused": ("http://127.0.0.1:{}/", None, None, ConnectFailure.REFUSED),
    "refused by both families": ("https://localhost:{}/", None, None, ConnectFailure.REFUSED),
    "unresolved": ("http://nobody.invalid/", None, None, ConnectFailure.UNRESOLVED),
    "TLS to plain": ("https://localhost:{}/", _plain, None, ConnectFailure.NO_TLS),
    "plain to TLS that says so": ("http://localhost:{}/", _alert, None, ConnectFailure.TLS_REQUIRED),
    "plain to TLS that closes": ("http://localhost:{}/", _plain, "trusted", ConnectFailure.CONNECTION_RESET),
    "untrusted": ("https://localhost:{}/", _plain, "other", ConnectFailure.UNTRUSTED),
    "other name": ("https://127.0.0.1:{}/", _plain, "trusted", ConnectFailure.HOSTNAME_MISMATCH),
    "too slow": ("http://localhost:{}/", Exchange.ended, None, ConnectFailure.TIMED_OUT),
    "too slow a handshake": ("https://localhost:{}/", Exchange.ended, None, ConnectFailure.TIMED_OUT),
    "closed": ("http://localhost:{}/", _mute, None, ConnectFailure.CONNECTION_RESET),
}


@pytest.mark.parametrize("fetch", [_by_httpx, _by_aiohttp])
@pytest.mark.parametrize("way", WAYS)
async def test_each_failure_is_distinguished(tmp_path: Path, way: str, fetch: Fetch) -> None:
    url, serve, owner, expected = WAYS[way]
    for name in ("trusted", "other"):
        (tmp_path / name).mkdir()
    files = {name: certificate_files(tmp_path / name, "localhost") for name in ("trusted", "other")}
    async with AsyncExitStack() as stack:
        port = free_port()
        if serve is not None:
            tls = files[owner].server_context() if owner else None
            port = (await stack.enter_async_context(RawUpstream(script=serve, tls=tls))).port
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has its own
            await fetch(url.format(port), files["trusted"].client_context(), 0.5 if expected is ConnectFailure.TIMED_OUT else 20)
    assert classify_failure(caught.value) is expected


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
        (_verification(10), ConnectFailure.EXPIRED),
        (_verification(9), ConnectFailure.NOT_YET_VALID),
        (_verification(64), ConnectFailure.HOSTNAME_MISMATCH),
        (_verification(20), ConnectFailure.UNTRUSTED),
        (_tls_error("RECORD_LAYER_FAILURE"), ConnectFailure.NO_TLS),
        (_tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), ConnectFailure.CLIENT_CERT_REQUIRED),
        (_tls_error("UNSUPPORTED_PROTOCOL"), ConnectFailure.HANDSHAKE_FAILED),
        (OSError(errno.EHOSTUNREACH, "No route to host"), ConnectFailure.UNREACHABLE),
        (OSError(errno.EMFILE, "Too many open files"), ConnectFailure.FD_EXHAUSTED),
        (ExceptionGroup("several addresses", [TimeoutError(), ConnectionRefusedError()]), ConnectFailure.REFUSED),
        (socket.gaierror(-2, "Name or service not known"), ConnectFailure.UNRESOLVED),
        (ValueError("something else"), ConnectFailure.UNKNOWN),
    ],
)
def test_failures_beyond_loopback_are_distinguished_too(error: Exception, trouble: ConnectFailure) -> None:
    assert classify_failure(error) is trouble


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert classify_failure(first) is ConnectFailure.UNKNOWN


def test_descriptions_are_unique() -> None:
    assert (
        len({trouble.message for trouble in ConnectFailure}) == len({trouble.advice for trouble in ConnectFailure}) == len(ConnectFailure)
    )


@pytest.mark.parametrize("fault", ConnectFailure)
def test_each_fault_is_in_the_troubleshooting_table(fault: ConnectFailure) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "upstreams.md").read_text()
    assert f"`{fault.message}`" in page
