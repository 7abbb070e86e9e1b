"""OneLogin: its groups come by a scope of their own."""

from authenticate.provider.kinds.oidc import OIDCProvider
from config.issuers import DEFAULT_URLS


class OneLoginProvider(OIDCProvider):
    default_url = DEFAULT_URLS["onelogin"]
    default_scopes = ("openid", "profile", "email", "groups", "offline_access")
