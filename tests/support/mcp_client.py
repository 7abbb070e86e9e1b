"""Clients of the official MCP SDK that reach gate on this machine, with a token or with the SDK's own OAuth client."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

CALLBACK = "http://127.0.0.1:49152/callback"  # nothing listens there; `authorize` returns the redirect
CURRENT = "2026-07-28"


class Loopback(httpx2.AsyncHTTPTransport):
    """Transport of the SDK's HTTP client that connects every host to this machine."""

    async def handle_async_request(self, request: Any) -> Any:
        name = request.url.host
        request.extensions = {**request.extensions, "sni_hostname": name}
        request.url = request.url.copy_with(host="127.0.0.1")
        return await super().handle_async_request(request)


class ClientStorage:
    """Storage of the SDK's OAuth client.  With `client_id` the client is registered already."""

    def __init__(self, client_id: str = "", client_name: str = "Ticket agent", redirect_uri: str = CALLBACK) -> None:
        self.name, self.redirect_uri = client_name, redirect_uri
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        if client_id:
            self.client = OAuthClientInformationFull(
                client_id=client_id, redirect_uris=[redirect_uri], token_endpoint_auth_method="none", client_name=client_name
            )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def oauth_provider(url: str, storage: ClientStorage, authorize: Callable[[str], Awaitable[str]]) -> OAuthClientProvider:
    """Return the SDK's OAuth client.  `authorize` opens a URL as the user and returns the redirect to the client."""
    redirects: list[str] = []

    async def open_browser(address: str) -> None:
        redirects.append(await authorize(address))

    async def wait_for_callback() -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(redirects[-1]).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    metadata = OAuthClientMetadata(redirect_uris=[storage.redirect_uri], client_name=storage.name)
    return OAuthClientProvider(url, metadata, storage, open_browser, wait_for_callback)


@asynccontextmanager
async def mcp_client(url: str, authority: Path, *, mode: str = CURRENT, **options: Any) -> AsyncIterator[Client]:
    """A connected client; `options` (auth, headers) are those of its HTTP client, and `authority` has issued the server's certificate."""
    transport = Loopback(verify=ssl.create_default_context(cafile=str(authority)))
    async with (
        httpx2.AsyncClient(transport=transport, timeout=30, **options) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client
