"""An exchange with the provider is bounded, follows nothing and remembers nothing."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authenticate.provider.address_scope import AddressScope
from authenticate.provider.provider_http import MAX_BODY, ProviderHttp
from foundation.errors import ProviderError
from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.fake_idp import Answer, FakeIdP
from tests.support.options import make_options


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[ProviderHttp]:
    http = ProviderHttp(make_options(tmp_path), AddressScope(None))
    yield http
    await http.close()


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[ProviderHttp]:
    http = ProviderHttp(make_options(tmp_path), AddressScope(None), timeout=0.5)
    yield http
    await http.close()


async def test_cookies_of_one_exchange_are_not_sent_with_the_next(http: ProviderHttp, idp: FakeIdP) -> None:
    for _ in range(2):
        await http.get(f"{idp.issuer}/jwks")
    assert all("cookie" not in request.headers for request in idp.requests)


async def test_redirects_are_not_followed(http: ProviderHttp, idp: FakeIdP) -> None:
    idp.bend.answers["/jwks"] = Answer(302, headers={"Location": f"{idp.issuer}/elsewhere"})
    assert (await http.get(f"{idp.issuer}/jwks")).status == 302
    assert idp.count("/elsewhere") == 0


async def test_a_body_of_more_than_a_mebibyte_is_refused(http: ProviderHttp, idp: FakeIdP) -> None:
    idp.bend.answers["/jwks"] = Answer(body=b"x" * MAX_BODY)
    assert len((await http.get(f"{idp.issuer}/jwks")).body) == MAX_BODY
    idp.bend.answers["/jwks"] = Answer(body=b"x" * (MAX_BODY + 1))
    with pytest.raises(ProviderError, match="exceeds"):
        await http.get(f"{idp.issuer}/jwks")


async def test_compression_is_neither_requested_nor_decoded(http: ProviderHttp, idp: FakeIdP) -> None:
    idp.bend.answers["/jwks"] = Answer(body=b"not gzip", headers={"Content-Encoding": "gzip"})
    assert (await http.get(f"{idp.issuer}/jwks")).body == b"not gzip"
    assert idp.requests[-1].headers["accept-encoding"] == "identity"


async def test_a_slow_answer_ends_in_time(impatient: ProviderHttp, idp: FakeIdP) -> None:
    idp.bend.answers["/jwks"] = Answer(delay=30)
    async with asyncio.timeout(5):
        with pytest.raises(ProviderError, match="in time"):
            await impatient.get(f"{idp.issuer}/jwks")


async def test_an_answer_that_drips_in_ends_in_time(impatient: ProviderHttp) -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.04)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server, asyncio.timeout(5):
        with pytest.raises(ProviderError, match="in time"):
            await impatient.get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x")


async def test_errors_name_the_host_and_no_more_of_the_url(http: ProviderHttp) -> None:
    closed_address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ProviderError) as caught:
        await http.get(f"http://{closed_address}/path?code=secret")
    assert closed_address in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "path" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://", "ftp://127.0.0.1/"])
async def test_odd_urls_are_provider_errors(http: ProviderHttp, url: str) -> None:
    with pytest.raises(ProviderError):
        await http.get(url)


async def test_the_environment_adds_no_proxy(tmp_path: Path, idp: FakeIdP, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    http = ProviderHttp(make_options(tmp_path), AddressScope(None))
    assert (await http.get(f"{idp.issuer}/jwks")).status == 200
    await http.close()


async def test_tls_is_verified_against_the_system_and_certificate_authority(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    files = certificate_files(tmp_path, "localhost")
    authority = base64.b64encode(files.authority.read_bytes()).decode()
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=files.server_context()) as server:
        port = server.sockets[0].getsockname()[1]
        trusting, strict = (
            ProviderHttp(make_options(tmp_path, certificate_authority=authority), AddressScope(None)),
            ProviderHttp(make_options(tmp_path), AddressScope(None)),
        )
        assert (await trusting.get(f"https://localhost:{port}/")).json() == {}
        # A name that differs from the certificate's, and an authority that is not configured.
        for http, host, text in (
            (trusting, "127.0.0.1", "for another name"),
            (strict, "localhost", "untrusted certificate .*CA"),
        ):
            with pytest.raises(ProviderError, match=text):
                await http.get(f"https://{host}:{port}/")
        await trusting.close()
        await strict.close()
