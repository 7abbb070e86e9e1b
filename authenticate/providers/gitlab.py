"""GitLab, its own site or a server of one's own: a refresh token comes without being asked for."""

from authenticate.providers.oidc import OIDCProvider


class GitLabProvider(OIDCProvider):
    default_url = "https://gitlab.com"
    default_scopes = ("openid", "profile", "email", "api")
