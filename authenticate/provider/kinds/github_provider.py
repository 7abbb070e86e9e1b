"""GitHub, public or self-hosted: plain OAuth 2.0 without ID tokens, so claims come from its API."""

import json
from typing import TYPE_CHECKING, Any

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.oidc_provider import OIDCProvider
from authenticate.provider.provider_errors import InvalidAccessToken
from authenticate.provider.provider_http import ProviderHttp, ProviderResponse
from config.issuers import DEFAULT_URLS
from databroker.records import SessionRecord
from foundation.errors import ProviderError

if TYPE_CHECKING:
    from authenticate.provider.provider_client import ProviderClient

# From GitHub's documentation of scopes. The response omits scopes that a wider one implies.
_IMPLIED_SCOPES = {
    "user": ("read:user", "user:email", "user:follow"),
    "admin:org": ("write:org", "read:org"),
    "write:org": ("read:org",),
    "repo": ("repo:status", "repo_deployment", "public_repo", "repo:invite", "security_events"),
}


class GitHubProvider(OIDCProvider):
    default_scopes = ("user:email", "read:org")
    required_scopes = default_scopes
    issues_id_token = False
    access_tokens_never_expire = True

    @property
    def _site(self) -> str:
        return self.url.rstrip("/")

    @property
    def _api(self) -> str:
        return api_url(self._site)

    async def discovery(self, http: ProviderHttp) -> DiscoveryDocument:
        return DiscoveryDocument(
            issuer=self.issuer,
            authorization_endpoint=f"{self.issuer}/authorize",
            token_endpoint=f"{self.issuer}/access_token",
            jwks_uri="",
            algorithms=frozenset(),
            token_auth_methods=frozenset({"client_secret_post"}),
        )

    def scope_names(self, scopes: str) -> frozenset[str]:
        """Return the scope names, including those that a wider scope implies."""
        names = super().scope_names(scopes)
        return names | frozenset(narrow for wide in names for narrow in _IMPLIED_SCOPES.get(wide, ()))

    async def userinfo(self, client: "ProviderClient", discovery: DiscoveryDocument, access_token: str) -> dict[str, Any]:
        headers = {"Authorization": f"token {access_token}", "Accept": "application/vnd.github+json"}
        user = _check_status(await client.http.get(self._api + "/user", headers)).json()
        login, number = user.get("login"), user.get("id")
        if not isinstance(login, str) or not 0 < len(login) <= 255 or not login.isprintable() or not isinstance(number, int):
            raise ProviderError("GitHub's response about the user has no login or id")
        claims = {"sub": login, "user": login, "id": str(number), "name": user.get("name") or login, "picture": user.get("avatar_url")}
        emails = await client.http.get(self._api + "/user/emails", headers)
        if emails.status in (403, 404):  # idp_scopes without user:email
            return claims
        return {**claims, **_primary_email(_check_status(emails))}

    async def revoke(self, client: "ProviderClient", discovery: DiscoveryDocument, session: SessionRecord) -> bool:
        """Revoke this token only; `/grant` would also end the user's sessions in other browsers."""
        headers = {**client.basic_credentials(), "Content-Type": "application/json"}
        body = json.dumps({"access_token": session.access_token}).encode()
        answer = await client.http.send("DELETE", f"{self._api}/applications/{client.client_id}/token", headers, body)
        if answer.status not in (204, 404):
            raise ProviderError(f"GitHub returned status {answer.status} for the token revocation")
        return True


def api_url(site: str) -> str:
    """Return the REST API's URL: of github.com, of GitHub Enterprise Cloud with data residency, or of a self-hosted server."""
    scheme, _, host = site.partition("://")
    if site == DEFAULT_URLS["github"] or host.endswith(".ghe.com"):
        return f"{scheme}://api.{host}"
    return f"{site}/api/v3"


def _check_status(answer: ProviderResponse) -> ProviderResponse:
    if answer.status == 401:
        raise InvalidAccessToken("GitHub rejected the access token")
    if answer.status != 200:
        raise ProviderError(f"GitHub's API returned status {answer.status}")
    return answer


def _primary_email(answer: ProviderResponse) -> dict[str, Any]:
    """Return the primary verified address. The profile's address is not used, because the user sets it and GitHub does not verify it."""
    for entry in answer.json_list():
        if isinstance(entry, dict) and entry.get("primary") is True and entry.get("verified") is True:
            return {"email": entry.get("email"), "email_verified": True}
    return {}
