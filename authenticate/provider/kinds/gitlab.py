"""GitLab, its own site or a server of one's own: a refresh token comes without being asked for."""

from authenticate.provider.kinds.oidc import OIDCProvider
from config.issuers import DEFAULT_URLS


class GitLabProvider(OIDCProvider):
    default_url = DEFAULT_URLS["gitlab"]
    default_scopes = ("openid", "profile", "email", "api")
    needed_scopes = ("profile", "email", "read_api")  # the last for the look-up of groups at sign-in

    def scope_names(self, scopes: str) -> frozenset[str]:
        names = super().scope_names(scopes)
        return names | {"read_api"} if "api" in names else names
