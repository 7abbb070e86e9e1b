"""Google: gives a refresh token only with `access_type=offline`, and again only after a new consent."""

from authenticate.providers.oidc import OIDCProvider


class GoogleProvider(OIDCProvider):
    default_url = "https://accounts.google.com"
    default_scopes = ("openid", "profile", "email")
    default_params = {"prompt": "select_account consent"}
