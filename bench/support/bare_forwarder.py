"""Baseline of the request benchmark: stock Daphne and aiohttp, streaming in both directions without further work.

`BARE_UPSTREAM=http://127.0.0.1:9000 daphne -p 8000 bench.support.bare_forwarder:application`
"""

import os

import aiohttp
from yarl import URL

UPSTREAM = os.environ["BARE_UPSTREAM"]
_CONNECTION_HEADERS = {b"connection", b"transfer-encoding", b"keep-alive", b"content-length"}

_session: aiohttp.ClientSession | None = None


def _client() -> aiohttp.ClientSession:
    global _session
    if _session is None:  # needs the running loop
        connector = aiohttp.TCPConnector(limit=0)
        _session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
    return _session


async def application(scope, receive, send):
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"] if name not in _CONNECTION_HEADERS]
    first = await receive()
    body = _body(first, receive) if first.get("more_body") or first.get("body") else None
    url = URL(UPSTREAM + target.decode("latin-1"), encoded=True)
    async with _client().request(scope["method"], url, headers=headers, data=body, allow_redirects=False) as response:
        out = [(name.lower(), value) for name, value in response.raw_headers if name.lower() not in _CONNECTION_HEADERS]
        if response.content_length is not None:
            out.append((b"content-length", str(response.content_length).encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": out})
        async for chunk in response.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _body(message, receive):
    while True:
        yield message.get("body", b"")
        if not message.get("more_body"):
            return
        message = await receive()
