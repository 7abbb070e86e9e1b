"""Access tokens of one resource: the stored one, a refreshed one, or one of a new sign-in."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from gateproject.tunnel.oauth_client import AuthorizationServer, OAuthError
from gateproject.tunnel.token_file import StoredToken, TokenFile

MIN_VALID_SECONDS = 60.0  # of a token that is used without a refresh
INVALID_GRANT = "invalid_grant"


@dataclass
class AccessTokens:
    """Source of access tokens. Changes of the file are made under its lock, so each refresh token is sent once."""

    file: TokenFile
    discover: Callable[[], Awaitable[AuthorizationServer]]
    sign_in: Callable[[AuthorizationServer], Awaitable[StoredToken]]
    report: Callable[[str], None]

    async def find(self) -> str:
        """Return the stored access token, refreshed if it expires soon; empty if a sign-in is required. Raise TunnelError."""
        stored = self.file.read()
        if stored is None or _is_valid(stored):
            return stored.access_token if stored else ""
        async with self.file.locked(self.report):
            stored = self.file.read()
            if stored is not None and not _is_valid(stored):
                stored = await self._refresh(stored)
            return stored.access_token if stored else ""

    async def replace(self, refused: str) -> str:
        """Return an access token of a new sign-in, or of one that ended since `refused` was read. Raise TunnelError."""
        async with self.file.locked(self.report):
            stored = self.file.read()
            if stored is None or stored.access_token == refused or not _is_valid(stored):
                stored = await self.sign_in(await self.discover())
                self.file.write(stored)
            return stored.access_token

    async def revoke(self) -> bool:
        """Revoke and delete the stored tokens; return whether there were any. Raise TunnelError."""
        async with self.file.locked(self.report):
            stored = self.file.read()
            if stored is not None:
                server = await self.discover()
                if server.issuer == stored.issuer:
                    await server.revoke(stored.refresh_token or stored.access_token)
            self.file.forget()
            return stored is not None

    async def _refresh(self, stored: StoredToken) -> StoredToken | None:
        """Return refreshed tokens; None if the server refuses, for example because the session has ended."""
        server = await self.discover()
        refreshed = None
        # Another server must not get the refresh token.
        if stored.refresh_token and server.issuer == stored.issuer:
            try:
                refreshed = await server.request_tokens("refresh_token", refresh_token=stored.refresh_token)
            except OAuthError as error:
                if error.code != INVALID_GRANT:
                    raise
        if refreshed is None:
            self.file.forget()
        else:
            # RFC 6749 6: without a new refresh token, the old one stays valid.
            refreshed = replace(refreshed, refresh_token=refreshed.refresh_token or stored.refresh_token)
            self.file.write(refreshed)
        return refreshed


def _is_valid(stored: StoredToken) -> bool:
    return time.time() < stored.expires_at - MIN_VALID_SECONDS
