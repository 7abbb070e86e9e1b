"""MCP server of the official SDK with its authorization server, as a child process: a third party, where each user has an account.

Each authorization request is allowed for a new account: account-1, account-2, and so on.  `control` changes that.
"""

import secrets
import sys
import time
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from tests.support.children import free_port, is_open
from tests.support.fork_server import python

CLIENT_ID, CLIENT_SECRET = "gate-at-the-third-party", "a secret of gate at the third party"


class ThirdPartyServer:
    """Running server.  `redirect_uris` are those of gate, its registered client; others name their metadata document."""

    def __init__(self, *redirect_uris: str):
        self.port = free_port()
        self.child = python("-m", "tests.support.third_party_server", str(self.port), *redirect_uris)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, Any]:
        """`upstream_oauth` of a route to this server."""
        return {
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "client_auth_method": "client_secret_post",
            "scopes": ["tools"],
            "authorization_url": f"{self.url}/authorize",
            "token_url": f"{self.url}/token",
            "revocation_url": f"{self.url}/revoke",
            "issuer": self.url,
        }

    def control(self, **changes: Any) -> dict[str, Any]:
        """Change how the server answers, and return what it has received.

        `lifetime` of new access tokens in seconds; `denies` authorization; `forgets` all access tokens, or `forgets_all` tokens.
        """
        answer = httpx.post(f"{self.url}/control", json=changes, trust_env=False)
        answer.raise_for_status()
        received: dict[str, Any] = answer.json()
        return received

    def __enter__(self) -> Self:
        self.child.wait_for(lambda: is_open(self.port), "the third-party server listens")
        return self

    def __exit__(self, *error: object) -> None:
        self.child.__exit__(*error)


def build(url: str, redirect_uris: list[str]) -> Any:
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.routes import build_metadata
    from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
    from mcp.server.mcpserver import MCPServer
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    accounts = _accounts(redirect_uris)
    auth = AuthSettings(
        issuer_url=url,
        resource_server_url=f"{url}/mcp",
        validate_token_resource=True,
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["tools"],
    )
    server = MCPServer("Third party", auth_server_provider=accounts, auth=auth)

    @server.tool()
    def whoami() -> str:
        token = get_access_token()
        return str(token.subject) if token is not None else "nobody"

    @server.custom_route("/control", methods=["POST"])
    async def control(request: Request) -> JSONResponse:
        return JSONResponse(accounts.control(await request.json()))

    app = server.streamable_http_app(host="0.0.0.0")

    metadata = build_metadata(auth.issuer_url, None, ClientRegistrationOptions(), RevocationOptions(enabled=True))
    metadata.client_id_metadata_document_supported = True
    metadata.token_endpoint_auth_methods_supported = ["client_secret_post", "none"]
    published = JSONResponse(metadata.model_dump(mode="json", exclude_none=True))

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/.well-known/oauth-authorization-server":
            await published(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == "/mcp":
            accounts.headers.append([[name.decode(), value.decode("latin-1")] for name, value in scope["headers"]])
        await app(scope, receive, send)

    return recording


def _accounts(redirect_uris: list[str]) -> Any:
    from mcp.server.auth.provider import (
        AccessToken,
        AuthorizationCode,
        AuthorizationParams,
        RefreshToken,
        construct_redirect_uri,
    )
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
    from pydantic import AnyUrl

    class Accounts:
        """Storage of the SDK's authorization server."""

        def __init__(self) -> None:
            self.headers: list[list[list[str]]] = []
            self._client = OAuthClientInformationFull(
                client_id=CLIENT_ID,
                client_secret=CLIENT_SECRET,
                redirect_uris=[AnyUrl(uri) for uri in redirect_uris],
                token_endpoint_auth_method="client_secret_post",
                scope="tools",
            )
            self._lifetime, self._denies, self._count, self._refreshes = 3600, False, 0, 0
            self._codes: dict[str, AuthorizationCode] = {}
            self._access: dict[str, AccessToken] = {}
            self._refresh: dict[str, RefreshToken] = {}

        def control(self, changes: dict[str, Any]) -> dict[str, Any]:
            self._lifetime = changes.get("lifetime", self._lifetime)
            self._denies = changes.get("denies", self._denies)
            if changes.get("forgets") or changes.get("forgets_all"):
                self._access.clear()
            if changes.get("forgets_all"):
                self._refresh.clear()
            subjects = sorted(str(token.subject) for token in self._refresh.values())
            return {"headers": self.headers, "subjects": subjects, "refreshes": self._refreshes, "tokens": [*self._access, *self._refresh]}

        async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
            if client_id == CLIENT_ID:
                return self._client
            document = await _fetch_document(client_id) if client_id.startswith("https://") else {}
            return OAuthClientInformationFull(**document, scope="tools") if document.get("client_id") == client_id else None

        async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
            answer = {"state": params.state, "iss": sys_url()}
            if self._denies:
                return construct_redirect_uri(str(params.redirect_uri), error="access_denied", **answer)
            self._count += 1
            code = secrets.token_urlsafe(32)
            self._codes[code] = AuthorizationCode(
                code=code,
                scopes=params.scopes or [],
                expires_at=time.time() + 60,
                client_id=client.client_id,
                code_challenge=params.code_challenge,
                redirect_uri=params.redirect_uri,
                redirect_uri_provided_explicitly=True,
                resource=params.resource,
                subject=f"account-{self._count}",
            )
            return construct_redirect_uri(str(params.redirect_uri), code=code, **answer)

        async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
            return self._codes.get(code)

        async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
            del self._codes[code.code]
            return self._issue(code)

        async def load_refresh_token(self, client: Any, token: str) -> RefreshToken | None:
            return self._refresh.get(token)

        async def exchange_refresh_token(self, client: Any, token: RefreshToken, scopes: list[str]) -> OAuthToken:
            del self._refresh[token.token]
            self._refreshes += 1
            return self._issue(token)

        def _issue(self, grant: Any) -> OAuthToken:
            fields = {"client_id": grant.client_id, "scopes": grant.scopes, "resource": grant.resource, "subject": grant.subject}
            access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
            self._access[access] = AccessToken(token=access, expires_at=int(time.time()) + 3600, **fields)
            self._refresh[refresh] = RefreshToken(token=refresh, **fields)
            scope = " ".join(grant.scopes)
            return OAuthToken(access_token=access, expires_in=self._lifetime, refresh_token=refresh, scope=scope)

        async def load_access_token(self, token: str) -> AccessToken | None:
            return self._access.get(token)

        async def revoke_token(self, token: Any) -> None:
            for tokens in (self._access, self._refresh):
                for each in [value for value, held in tokens.items() if held.subject == token.subject]:
                    del tokens[each]

    return Accounts()


async def _fetch_document(url: str) -> dict[str, Any]:
    """Fetch the metadata document of a client whose host is on this machine."""
    parts = urlsplit(url)
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        headers, named = {"Host": parts.netloc}, {"sni_hostname": parts.hostname or ""}
        answer = await client.get(f"https://127.0.0.1:{parts.port}{parts.path}", headers=headers, extensions=named)
    document: dict[str, Any] = answer.raise_for_status().json()
    return document


def sys_url() -> str:
    return f"http://127.0.0.1:{sys.argv[1]}"


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(build(sys_url(), sys.argv[2:]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
