"""Client ID metadata documents: which are fetched, and from where; what of them is believed."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from authenticate.oauth import client_documents
from authenticate.oauth.client_documents import (
    MAX_BODY,
    MIN_LIFETIME,
    ClientDocumentError,
    ClientDocuments,
    is_document_url,
    parse_document,
)
from authenticate.oauth.oauth_client import ClientKeys
from authenticate.provider import address_scope
from authenticate.provider.address_scope import AddressScope
from tests.support.certs import certificate_files
from tests.support.client_keys import OTHER_KEY, public_jwk
from tests.support.options import make_options

URL = "https://client.example.com/oauth/client.json"
DOCUMENT: dict[str, Any] = {
    "client_id": URL,
    "client_name": "Claude",
    "redirect_uris": ["https://client.example.com/cb", "http://localhost/cb"],
}
KEYED = {**DOCUMENT, "token_endpoint_auth_method": "private_key_jwt"}


@pytest.fixture(autouse=True)
def this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's answer is asked for by a connected UDP socket, and tests talk to loopback only."""
    monkeypatch.setattr(address_scope, "_is_local_address", lambda address: address.is_loopback)


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        (URL, True),
        ("https://client.example.com:8443/x", True),
        ("https://client.example.com/", False),
        ("https://client.example.com", False),
        ("http://client.example.com/x", False),
        ("https://client.example.com/x?query", False),
        ("https://client.example.com/x#fragment", False),
        ("https://client.example.com/a/../x", False),
        ("https://client.example.com/a/%2E%2e/x", False),
        ("https://user@client.example.com/x", False),
        ("https://Client.example.com/x", False),
        ("https://[::1]/x", False),
        ("https://client.example.com\\@evil.example/x", False),
        ("https://client.example.com/x\n", False),
        ("file:///etc/passwd", False),
        (f"https://client.example.com/{'x' * 600}", False),
        ("ticket-agent", False),
    ],
)
def test_ids_that_are_documents(url: str, is_one: bool) -> None:
    assert is_document_url(url) is is_one


def test_believed_fields() -> None:
    client = parse_document(URL, json.dumps({**DOCUMENT, "logo_uri": "https://evil.example", "scope": "all"}).encode())
    assert (client.client_id, client.name, client.redirect_uris) == (URL, "Claude", tuple(DOCUMENT["redirect_uris"]))
    assert (client.verified_host, client.secret) == ("client.example.com", None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        json.dumps({**DOCUMENT, "client_id": f"{URL}/"}),
        json.dumps({**DOCUMENT, "client_id": None}),
        json.dumps({**DOCUMENT, "client_name": ""}),
        json.dumps({**DOCUMENT, "client_name": "x" * 101}),
        json.dumps({**DOCUMENT, "client_name": "gate\u202eetag"}),
        json.dumps({**DOCUMENT, "client_name": ["x"]}),
        json.dumps({**DOCUMENT, "redirect_uris": []}),
        json.dumps({**DOCUMENT, "redirect_uris": "https://client.example.com/cb"}),
        json.dumps({**DOCUMENT, "redirect_uris": ["http://client.example.com/cb"]}),
        json.dumps({**DOCUMENT, "redirect_uris": ["app://cb"]}),
        json.dumps({**DOCUMENT, "redirect_uris": [f"https://client.example.com/{number}" for number in range(21)]}),
        json.dumps(KEYED),
        json.dumps({**KEYED, "jwks": {"keys": [public_jwk()]}, "jwks_uri": "https://client.example.com/keys"}),
        json.dumps({**KEYED, "jwks": {"keys": []}}),
        json.dumps({**KEYED, "jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}}),
        json.dumps({**KEYED, "jwks": {"keys": [{**public_jwk(), "d": "AAAA"}]}}),
        json.dumps({**KEYED, "jwks": [public_jwk()]}),
        json.dumps({**KEYED, "jwks_uri": "http://client.example.com/keys"}),
        json.dumps({**KEYED, "jwks_uri": "https://10.0.0.1"}),
        json.dumps({**KEYED, "jwks_uri": 1}),
        json.dumps({**DOCUMENT, "token_endpoint_auth_method": "client_secret_basic"}),
        json.dumps({**DOCUMENT, "token_endpoint_auth_method": ["none"]}),
        json.dumps({**DOCUMENT, "client_secret": "x"}),
        f'{{"client_id": "https://evil.example/x", {json.dumps(DOCUMENT)[1:]}',
    ],
)
def test_unusable_documents(content: str | bytes) -> None:
    with pytest.raises(ClientDocumentError):
        parse_document(URL, content if isinstance(content, bytes) else content.encode())


Respond = Callable[[], bytes]


@asynccontextmanager
async def server(tmp_path: Path, respond: Respond) -> AsyncIterator[tuple[int, list[bytes], ssl.SSLContext]]:
    """Yield (port, received request heads) of an https server of `localhost`, whose responses are `respond()`."""
    certificates = certificate_files(tmp_path, "localhost")
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(respond())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificates.server_context()) as listening:
        yield listening.sockets[0].getsockname()[1], received, certificates.client_context()


def http(body: bytes, *headers: str, status: str = "200 OK", media_type: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media_type}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def documents(tmp_path: Path, clock: Clock, port: int | None = None, **settings: Any) -> ClientDocuments:
    """Return the documents; with `port`, that endpoint of this machine counts as public, as none does outside of tests."""
    authority = tmp_path / "ca.pem"
    options = make_options(tmp_path, certificate_authority_file=str(authority) if authority.exists() else None, **settings)
    return ClientDocuments(options, clock, AddressScope(f"https://localhost:{port}") if port is not None else None)


@asynccontextmanager
async def fetching(tmp_path: Path, respond: Respond) -> AsyncIterator[tuple[ClientDocuments, str, list[bytes], Clock]]:
    clock = Clock()
    async with server(tmp_path, respond) as (port, received, _):
        found = documents(tmp_path, clock, port)
        yield found, f"https://localhost:{port}/client.json", received, clock
        await found.close()


def document_at(url: str, **members: Any) -> bytes:
    return json.dumps({**DOCUMENT, "client_id": url, **members}).encode()


async def test_document_is_fetched_once_in_its_lifetime(tmp_path: Path) -> None:
    urls: list[str] = []
    async with fetching(tmp_path, lambda: http(document_at(urls[0]), "Cache-Control: max-age=600")) as (found, url, received, clock):
        urls.append(url)
        assert found.cached(url) is None
        for _ in range(2):
            assert (await found.get(url)).name == "Claude"
        assert len(received) == 1
        assert b"cookie" not in received[0].lower()
        clock.now += 601
        assert found.cached(url) is None
        await found.get(url)
        assert len(received) == 2


@pytest.mark.parametrize(
    "response",
    [
        http(b"", status="302 Found"),
        http(b"", "Location: https://localhost/elsewhere", status="302 Found"),
        http(b"x", status="404 Not Found"),
        http(b"{}", media_type="text/html"),
        http(b" " * (MAX_BODY + 1)),
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * (MAX_BODY + 1),
        http(b"{}"),
        b"not http\r\n\r\n",
        b"",
    ],
)
async def test_unusable_responses(tmp_path: Path, response: bytes) -> None:
    async with fetching(tmp_path, lambda: response) as (found, url, received, _):
        with pytest.raises(ClientDocumentError):
            await found.get(url)
        assert len(received) == 1  # in particular, no redirect was followed
        assert found.cached(url) is None


@pytest.mark.parametrize(
    ("status", "media_type", "size", "is_accepted"),
    [
        ("200 OK", "application/json", MAX_BODY, True),
        ("200 OK", "application/oauth-client+json; charset=utf-8", 0, True),
        ("200 OK", "application/json", MAX_BODY + 1, False),
        ("200 OK", "text/html", 0, False),
        ("200 OK", "text/vnd+json", 0, False),
        ("200 OK", "application/octet-stream", 0, False),
        ("200 OK", "", 0, False),
        ("201 Created", "application/json", 0, False),
        ("302 Found", "application/json", 0, False),
        ("404 Not Found", "application/json", 0, False),
        ("500 Internal Server Error", "application/json", 0, False),
    ],
)
async def test_a_valid_document_needs_a_valid_response(tmp_path: Path, status: str, media_type: str, size: int, is_accepted: bool) -> None:
    urls: list[str] = []

    def respond() -> bytes:
        return http(document_at(urls[0]).ljust(size), status=status, media_type=media_type)

    async with fetching(tmp_path, respond) as (found, url, _, _):
        urls.append(url)
        if is_accepted:
            assert (await found.get(url)).name == "Claude"
        else:
            with pytest.raises(ClientDocumentError):
                await found.get(url)


@pytest.mark.parametrize("directive", ["no-store", "no-cache", "private, No-Store", "max-age=0"])
async def test_documents_that_must_not_be_cached_are_cached_for_a_moment(tmp_path: Path, directive: str) -> None:
    urls: list[str] = []
    async with fetching(tmp_path, lambda: http(document_at(urls[0]), f"Cache-Control: {directive}")) as (found, url, received, clock):
        urls.append(url)
        await found.get(url)
        clock.now += MIN_LIFETIME + 1
        await found.get(url)
        assert len(received) == 2


async def test_slow_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_documents, "TIMEOUT", 0.2)
    start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        try:
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass

    certificates = certificate_files(tmp_path, "localhost")
    async with await asyncio.start_server(drip, "127.0.0.1", 0, ssl=certificates.server_context()) as listening:
        port = listening.sockets[0].getsockname()[1]
        found = documents(tmp_path, Clock(), port)
        async with asyncio.timeout(10):
            with pytest.raises(ClientDocumentError):
                await found.get(f"https://localhost:{port}/client.json")
        await found.close()


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "127.1.2.3",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
    ],
)
async def test_internal_addresses_are_not_dialled(tmp_path: Path, host: str) -> None:
    async with server(tmp_path, lambda: http(b"{}")) as (port, received, _):
        found = documents(tmp_path, Clock())
        with pytest.raises(ClientDocumentError):
            await found.get(f"https://{host}:{port}/client.json")
        assert received == []
        await found.close()


async def test_address_is_checked_when_it_is_dialled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to a public address first and to an internal one later (DNS rebinding) is not dialled."""
    async with server(tmp_path, lambda: http(b"{}")) as (port, received, _):
        found = documents(tmp_path, Clock())

        async def resolve(*_: Any, **__: Any) -> list[Any]:
            return [(2, 1, 6, "", ("127.0.0.1", port)), (10, 1, 6, "", ("::ffff:127.0.0.1", port, 0, 0))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        with pytest.raises(ClientDocumentError):
            await found.get(f"https://public.example.com:{port}/client.json")
        assert received == []
        await found.close()


@pytest.mark.parametrize(
    ("domains", "url", "is_allowed"),
    [
        (None, URL, True),
        ([], URL, False),
        (["client.example.com"], URL, True),
        (["client.example.com"], "https://client.example.com:8443/x", True),
        (["client.example.com"], "https://other.example.com/x", False),
        (["client.example.com"], "https://client.example.com.evil.example/x", False),
        (["*.example.com"], URL, True),
        (["*.example.com"], "https://example.com/x", False),
        (["*.example.com"], "https://evilexample.com/x", False),
        (None, "ticket-agent", False),
    ],
)
async def test_allowed_domains(tmp_path: Path, domains: list[str] | None, url: str, is_allowed: bool) -> None:
    found = documents(tmp_path, Clock(), mcp_client_domains=domains)
    assert found.allows(url) is is_allowed
    assert found.is_enabled is (domains != [])
    if not is_allowed:
        with pytest.raises(ClientDocumentError):
            await found.get(url)
    await found.close()


async def test_concurrent_fetches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = documents(tmp_path, Clock())
    waiting = asyncio.Event()

    async def fetch(url: str) -> tuple[bytes, float]:
        await waiting.wait()
        return document_at(url), 60.0

    monkeypatch.setattr(found, "_fetch", fetch)
    urls = [f"https://client.example.com/{number}" for number in range(client_documents.MAX_CONCURRENT + 1)]
    running = [asyncio.ensure_future(found.get(url)) for url in urls[:-1]]
    await asyncio.sleep(0)
    with pytest.raises(ClientDocumentError, match="too many"):
        await found.get(urls[-1])
    waiting.set()
    assert [client.client_id for client in await asyncio.gather(*running)] == urls[:-1]
    await found.close()


@pytest.mark.parametrize("members", [{"jwks": {"keys": [public_jwk()]}}, {"jwks_uri": "https://client.example.com/keys"}])
def test_keys_of_a_document(members: dict[str, Any]) -> None:
    client = parse_document(URL, json.dumps({**KEYED, **members}).encode())
    assert client.keys == ClientKeys(tuple(members.get("jwks", {}).get("keys", ())), members.get("jwks_uri", ""))
    assert client.is_confidential


async def test_keys_are_fetched_once_and_again_after_a_rotation(tmp_path: Path) -> None:
    urls, published = list[str](), {"keys": [public_jwk()]}

    def respond() -> bytes:
        keys_uri = urls[0].replace("client.json", "keys")
        is_document = received[-1].startswith(b"GET /client.json")
        document = document_at(urls[0], token_endpoint_auth_method="private_key_jwt", jwks_uri=keys_uri)
        return http(document if is_document else json.dumps(published).encode())

    async with fetching(tmp_path, respond) as (found, url, received, clock):
        urls.append(url)
        client = await found.get(url)
        for _ in range(2):
            assert await found.keys_for(client) == (public_jwk(),)
        assert [head.split()[1] for head in received] == [b"/client.json", b"/keys"]
        published["keys"] = [public_jwk(OTHER_KEY)]
        assert await found.keys_for(client, refetches=True) == (public_jwk(),), "not more often than every ten seconds"
        clock.now += 11
        assert await found.keys_for(client) == (public_jwk(),)
        assert await found.keys_for(client, refetches=True) == (public_jwk(OTHER_KEY),)
        published["keys"] = [{"kty": "oct", "k": "AAAA"}]
        clock.now += 11
        with pytest.raises(ClientDocumentError):
            await found.keys_for(client, refetches=True)


async def test_keys_at_a_private_address_are_not_fetched(tmp_path: Path) -> None:
    found = documents(tmp_path, Clock())
    client = parse_document(URL, json.dumps({**KEYED, "jwks_uri": "https://localhost/keys"}).encode())
    found._cache.put(URL, (client, 2000.0), 1)
    with pytest.raises(ClientDocumentError):
        await found.keys_for(client)
    await found.close()
