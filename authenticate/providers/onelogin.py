"""OneLogin: its groups come by a scope of their own."""

from authenticate.providers.oidc import OIDCProvider


class OneLoginProvider(OIDCProvider):
    default_url = "https://openid-connect.onelogin.com/oidc"
    default_scopes = ("openid", "profile", "email", "groups", "offline_access")
